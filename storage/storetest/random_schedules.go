package storetest

import (
	"bytes"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// scheduleTubes are the schedules of a random history, and the tube of each.
var scheduleTubes = map[string]string{"often": "a", "rarely": "b", "a/b.c": "c", "x$y": "a", "(z)": "b"}

var scheduleNames = []string{"often", "rarely", "a/b.c", "x$y", "(z)"}

// randomScheduleOp makes op an operation on records of schedules.
func (h *history) randomScheduleOp(op storage.Op) storage.Op {
	r, name := h.random, scheduleNames[h.random.IntN(len(scheduleNames))]
	op.Args = &storage.Args{Name: name}
	switch n := r.IntN(20); {
	case n < 4:
		op.Kind, op.Args.Schedule = storage.SetSchedule, h.randomSchedule(name)
	case n < 11:
		op.Kind, op.Body, op.Args.Tags, op.Args.Schedule = storage.PutScheduled, h.randomBody(), h.randomTags(), h.randomSchedule(name)
		op.Args.Tags.OnDuplicate = tube.OnDuplicate(r.IntN(int(tube.Follow) + 1))
		op.Args.Tags.Occurrence = &tube.Occurrence{Schedule: name, Nominal: tube.Instant(1+r.IntN(1e6)) * tube.Instant(time.Millisecond)}
		op.Args.Schedule.Body = bytes.Clone(op.Body)
	case n < 14:
		op.Kind = storage.GetRecord
	case n < 15:
		op.Kind, op.MaxJobs = storage.ListRecords, 100
	case n < 16:
		op.Kind, op.Tube = storage.DeleteSchedule, []string{"", scheduleTubes[name]}[r.IntN(2)]
	default:
		op.Kind, op.MaxJobs = storage.DueRecords, uint32(1+r.IntN(3))
		if h.learner != nil { // it can have several parts
			op.MaxJobs = 100
		}
	}
	if op.Args.Schedule != nil {
		op.Tube = op.Args.Schedule.Tube
	}
	return op
}

// randomSchedule returns a record of a schedule, mostly the version that can be written.
func (h *history) randomSchedule(name string) *tube.Schedule {
	r := h.random
	s := &tube.Schedule{
		Name: name, Version: h.model.schedules[name].record.Version + 1, Body: h.randomBody(),
		Tube: scheduleTubes[name], Pri: uint32(r.IntN(3)), TTR: uint32(1 + r.IntN(9)),
		Timing:  tube.Timing{Cron: "*/5 * * * *", Zone: "Europe/Berlin", Spread: time.Duration(r.IntN(3)) * time.Second},
		Overlap: tube.Overlap(r.IntN(4)), CatchUpAll: uint32(r.IntN(3)), Begin: tube.Instant(time.Millisecond), Missed: uint64(r.IntN(3)),
		Due: []tube.Instant{tube.Never, 1e6, 2e6, 3e6}[r.IntN(4)],
	}
	if r.IntN(10) == 0 {
		s.Version += uint64(r.IntN(3)) - 1
	}
	if r.IntN(3) == 0 {
		s.Tags = &tube.Tags{Key: "k", Rules: tube.Rules{Max: uint32(1 + r.IntN(3))}, Trace: aTrace}
	}
	return s
}

// randomDue makes the record in op due at a random time, often one that has passed.
func (h *history) randomDue(s *tube.Schedule) {
	if h.random.IntN(4) > 0 {
		in := (h.random.IntN(7) - 2) * h.engine.unit()
		s.Due = h.model.clock + tube.Instant(in)*tube.Instant(time.Second)
	}
}

// schedulePages lists the schedules, page by page.
func (h *history) schedulePages() {
	h.pages(storage.Op{Kind: storage.ListRecords, Records: tube.Schedules, MaxJobs: uint32(1 + h.random.IntN(3))})
}
