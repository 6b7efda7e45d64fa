package embedded

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

var manySchedules = flag.Int("schedules", 0, "schedules in TestSchedulesCost")

// TestSchedulesCost measures many schedules: their memory, how long operations on all of them take,
// and how long another client, which puts one job after the other, waits meanwhile.
func TestSchedulesCost(t *testing.T) {
	if *manySchedules == 0 {
		t.Skip("only on demand: -schedules=100000")
	}
	for name, dir := range map[string]string{"memory": "", "journal": t.TempDir()} {
		open := func() *Engine {
			if dir == "" {
				return NewMemory()
			}
			return mustOpen(t, Options{Dir: dir, SyncEvery: 0})
		}
		c := &schedulesCost{manyCost{t: t, name: name, e: open()}}
		before := heapBytes()
		c.measure("write", func() { c.set(1) })
		t.Logf("%-8s %d bytes for each", name, (heapBytes()-before) / *manySchedules)
		c.measure("write again", func() { c.set(2) })
		c.measure("list", c.listAll)
		c.measure("claim and put", c.putDue)
		c.measure("delete every second one", c.deleteHalf)
		c.e.Close()
		if dir != "" {
			begun := time.Now()
			c.e = open()
			t.Logf("%-8s opened again in %v", name, time.Since(begun).Round(time.Millisecond))
			c.e.Close()
		}
	}
}

func heapBytes() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

type schedulesCost struct{ manyCost }

// costly returns a version of a record, with a body of 64 bytes. It is due.
func costly(i int, version uint64) *tube.Schedule {
	return &tube.Schedule{
		Name: fmt.Sprint("schedule-", i), Version: version, Tube: "t", TTR: 60, Body: make([]byte, 64),
		Timing: tube.Timing{Cron: "*/5 * * * *", Zone: "Europe/Berlin"}, Due: 1e6,
	}
}

// inHundreds carries out an operation on each schedule, 100 with each batch.
func (c *schedulesCost) inHundreds(step int, op func(i int) storage.Op) {
	var ops []storage.Op
	for i := 0; i < *manySchedules; i += step {
		if ops = append(ops, op(i)); len(ops) == 100 {
			do(c.t, c.e, ops...)
			ops = nil
		}
	}
}

func (c *schedulesCost) set(version uint64) {
	c.inHundreds(1, func(i int) storage.Op {
		return storage.Op{Kind: storage.SetSchedule, Tube: "t", Args: &storage.Args{Schedule: costly(i, version)}}
	})
}

func (c *schedulesCost) deleteHalf() {
	c.inHundreds(2, func(i int) storage.Op {
		return storage.Op{Kind: storage.DeleteSchedule, Args: &storage.Args{Name: costly(i, 0).Name}}
	})
}

func (c *schedulesCost) listAll() {
	n := 0
	for cursor, more := "", true; more; more = cursor != "" {
		r := c.one(storage.Op{Kind: storage.ListRecords, Records: tube.Schedules, MaxJobs: tube.MaxListed, Args: &storage.Args{Cursor: cursor}}).Result
		n, cursor = n+len(r.Schedules()), r.Cursor
	}
	if n != *manySchedules {
		c.t.Errorf("listed are %d", n)
	}
}

// putDue claims the records that are due, and puts their jobs, 100 with each batch, until there are
// no more.
func (c *schedulesCost) putDue() {
	for put := 0; put < *manySchedules; {
		due := c.one(storage.Op{Kind: storage.DueRecords, Records: tube.Schedules, MaxJobs: tube.MaxListed}).Result.Schedules()
		for some := range slices.Chunk(due, 100) {
			var ops []storage.Op
			for _, s := range some {
				ops = append(ops, putAgain(s))
			}
			do(c.t, c.e, ops...)
			put += len(ops)
		}
	}
}

// putAgain puts the job of a schedule, which is never due again.
func putAgain(s *tube.Schedule) storage.Op {
	next := *s
	next.Version, next.Due = s.Version+1, tube.Never
	tags := &tube.Tags{Key: "schedule:" + s.Name, Occurrence: &tube.Occurrence{Schedule: s.Name, Nominal: s.Due}}
	return storage.Op{Kind: storage.PutScheduled, Tube: s.Tube, TTR: s.TTR, Body: s.Body, Args: &storage.Args{Tags: tags, Schedule: &next}}
}
