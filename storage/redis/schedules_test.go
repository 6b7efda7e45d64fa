package redis

import (
	"fmt"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/tube"
)

// scheduleOp returns the operation that writes version n of a schedule.
func scheduleOp(name string, n uint64, due tube.Instant) storage.Op {
	record := &tube.Schedule{Name: name, Version: n, Tube: "t", TTR: 60, Body: costBody, Due: due, Timing: tube.Timing{Cron: "*/5 * * * *"}}
	return storage.Op{Kind: storage.SetSchedule, Tube: "t", Args: &storage.Args{Name: name, Schedule: record}}
}

// scheduledPut is scheduleOp that also puts a job.
func scheduledPut(name string, n uint64, due tube.Instant, tags tube.Tags) storage.Op {
	op := scheduleOp(name, n, due)
	tags.Occurrence = &tube.Occurrence{Schedule: name, Nominal: tube.Instant(n) * tube.Instant(time.Second)}
	op.Kind, op.TTR, op.Body, op.Args.Tags = storage.PutScheduled, 60, costBody, &tags
	return op
}

func getSchedule(s *Store, name string) storage.Answer {
	return do(s, storage.Op{Kind: storage.GetSchedule, Args: &storage.Args{Name: name}})
}

// TestScheduledPutIsOnce: the answer to a put of a schedule is lost. The job is put once.
func TestScheduledPutIsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	s := openAt(t, proxy.URL(), patient)
	do(s, scheduleOp("often", 1, tube.Never))
	lost := false
	cutBehind(proxy, "schedules\r\n$3\r\nput", func() { lost = true })
	a := do(s, scheduledPut("often", 2, tube.Never, tube.Tags{}))
	if a.Err != nil || a.NotFound || a.ID != 1 || !lost {
		t.Errorf("lost %v: %+v", lost, a)
	}
	got := getSchedule(s, "often").Result.Schedules[0]
	if sum := figures(t, s); sum.Ready != 1 || got.Version != 2 || got.Results.Put != 1 || got.Results.ID != 1 {
		t.Errorf("%d jobs, %+v", sum.Ready, got)
	}
	if a := do(s, scheduledPut("often", 2, tube.Never, tube.Tags{})); !a.NotFound {
		t.Errorf("the same version again: %+v", a)
	}
	if a := do(s, put("x")); a.ID != 2 {
		t.Errorf("after a put that was not made: %+v", a)
	}
}

var _ = fmt.Sprint
