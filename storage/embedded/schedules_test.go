package embedded

import (
	"bytes"
	"fmt"
	"maps"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// occurrence is a job of a schedule by the version of the record that was written with its put.
type occurrence struct {
	schedule string
	version  uint64
}

// scheduledState is what some schedules have done: their versions, and which of their jobs are
// deleted.
type scheduledState struct {
	versions map[string]uint64
	deleted  map[occurrence]bool
}

func (s scheduledState) clone() scheduledState {
	return scheduledState{maps.Clone(s.versions), maps.Clone(s.deleted)}
}

// scheduledCuts is an engine in which schedules put jobs, one for each version of their records but
// the first. Its power is cut at random points.
type scheduledCuts struct {
	*stateCuts[scheduledState]
	puts int
}

// TestScheduledPowerCuts cuts the power at random moments while schedules put jobs that others
// delete. Each version of a record that there ever was has put exactly one job.
func TestScheduledPowerCuts(t *testing.T) {
	puts := 1000
	if testing.Short() {
		puts = 150
	}
	c := &scheduledCuts{stateCuts: newStateCuts(t, scheduledState{make(map[string]uint64), make(map[occurrence]bool)})}
	c.run(func() bool { return c.puts >= puts }, c.step, c.cut, puts/100)
}

// step writes some records, with the jobs that belong to them, and perhaps deletes a job.
func (c *scheduledCuts) step() {
	next := c.last().clone()
	var ops []storage.Op
	for range 1 + c.random.IntN(3) {
		name := fmt.Sprint("schedule ", c.random.IntN(5))
		next.versions[name]++
		op := scheduledPut(name, next.versions[name], 10+c.random.IntN(4000))
		if next.versions[name] == 1 {
			op.Kind, op.Body = storage.SetSchedule, nil
		} else {
			c.puts++
		}
		ops = append(ops, op)
	}
	c.change(next, ops...)
	if c.random.IntN(3) > 0 {
		return
	}
	take := []storage.Op{{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}}}
	if storage.DoWait(c.e, take); take[0].Answer.NotFound {
		return
	}
	id, gone := take[0].Answer.ID, c.last().clone()
	gone.deleted[c.occurrenceOf(c.e, id)] = true
	c.change(gone, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: id})
}

// scheduledPut puts the job of a version of a schedule, all with the same key.
func scheduledPut(name string, version uint64, size int) storage.Op {
	body := bytes.Repeat([]byte{byte(version)}, size)
	at := tube.Instant(version) * tube.Instant(time.Millisecond)
	return storage.Op{
		Kind: storage.PutScheduled, Tube: "t", TTR: 60, Body: body, Args: &storage.Args{
			Tags:     &tube.Tags{Occurrence: &tube.Occurrence{Schedule: name, Nominal: at}},
			Schedule: &tube.Schedule{Name: name, Version: version, Tube: "t", TTR: 60, Due: at, Body: bytes.Clone(body)},
		},
	}
}

// occurrenceOf returns which occurrence a job is.
func (c *scheduledCuts) occurrenceOf(e *Engine, id uint64) occurrence {
	s := do(c.t, e, storage.Op{Kind: storage.JobStats, ID: id})[0].Answer.Job
	o := s.Metadata.Occurrence
	return occurrence{o.Schedule, uint64(o.Nominal / tube.Instant(time.Millisecond))}
}

// cut checks what a power cut has left, and goes on with that.
func (c *scheduledCuts) cut(left *diskImage) {
	c.t.Helper()
	acked, latest := c.states[left.acked], c.last()
	c.goOn(left)
	now := c.stateNow(latest)
	for name, version := range now.versions {
		if version < acked.versions[name] || version > latest.versions[name] {
			c.t.Fatalf("power cut %s: %s has version %d, acknowledged is %d, and written at most %d", left.when, name, version, acked.versions[name], latest.versions[name])
		}
	}
	for o := range acked.deleted {
		if !now.deleted[o] {
			c.t.Fatalf("power cut %s: %+v was deleted", left.when, o)
		}
	}
	for o := range now.deleted {
		if !latest.deleted[o] {
			c.t.Fatalf("power cut %s: %+v is gone", left.when, o)
		}
	}
	c.states[0] = now
}

// stateNow returns the state of the engine that was opened. No job may be there twice, or without a
// version of its schedule.
func (c *scheduledCuts) stateNow(latest scheduledState) scheduledState {
	c.t.Helper()
	now := scheduledState{make(map[string]uint64), make(map[occurrence]bool)}
	for name := range latest.versions {
		op := []storage.Op{{Kind: storage.GetRecord, Records: tube.Schedules, Args: &storage.Args{Name: name}}}
		if storage.DoWait(c.e, op); op[0].Answer.NotFound {
			now.versions[name] = 0
			continue
		}
		s := op[0].Answer.Result.Schedules()[0]
		now.versions[name] = s.Version
		if s.Results.Put != s.Version-1 || len(s.Body) == 0 || s.Body[0] != byte(s.Version) {
			c.t.Fatalf("version %d of %s has put %d jobs, and its body begins with %x", s.Version, name, s.Results.Put, s.Body[:1])
		}
		for v := range s.Version - 1 {
			now.deleted[occurrence{name, v + 2}] = true
		}
	}
	listed := do(c.t, c.e, storage.Op{Kind: storage.ListRecords, Records: tube.Schedules, MaxJobs: 100, Args: &storage.Args{}})[0].Answer.Result.Schedules()
	for _, s := range listed {
		if len(listed) > len(now.versions) || s.Version != now.versions[s.Name] {
			c.t.Fatalf("of %d records in a list one is version %d of %s", len(listed), s.Version, s.Name)
		}
	}
	for cursor := ""; ; {
		page := do(c.t, c.e, storage.Op{Kind: storage.ListJobs, Tube: "t", State: tube.Ready, MaxJobs: 100, Args: &storage.Args{Cursor: cursor}})[0].Answer.Result
		for i := range page.Jobs {
			o := c.occurrenceOf(c.e, page.Jobs[i].ID)
			if !now.deleted[o] {
				c.t.Fatalf("%+v is there twice, or its version is not: it is %d", o, now.versions[o.schedule])
			}
			delete(now.deleted, o)
		}
		if cursor = page.Cursor; cursor == "" {
			return now
		}
	}
}
