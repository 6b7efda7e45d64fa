package storetest

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// testSetPriority: a ready job moves to its new position, a delayed or buried one only gets the
// priority. A reserved job is not changed.
func testSetPriority(b *harness) {
	set := func(id uint64, pri uint32) bool {
		return !b.do(storage.Op{Kind: storage.SetPriority, ID: id, Pri: pri}).NotFound
	}
	first, second, third := b.put("t", 5000), b.put("t", 5000), b.put("t", 5000)
	delayed := b.putWith("t", 7, 30, 60, "late")
	if !set(third, 3) || !set(delayed, 4) || set(delayed+1, 1) {
		b.Error("set-priority has not found the right jobs")
	}
	if s := b.tube("t"); s.Urgent != 1 || s.Ready != 3 || s.Delayed != 1 {
		b.Errorf("afterwards %+v", s)
	}
	if a, c := b.take(1, "t"), b.take(1, "t"); a != third || c != first {
		b.Errorf("took %d and %d, want %d and %d", a, c, third, first)
	}
	if set(first, 1) {
		b.Error("a reserved job got another priority")
	}
	b.must(tube.Bury, 1, first)
	if !set(first, 9) || b.job(first).Pri != 9 || b.job(first).State != tube.Buried || b.job(delayed).Pri != 4 {
		b.Errorf("a buried job, and a delayed one: %+v, %+v", b.job(first), b.job(delayed))
	}
	b.advance(31 * time.Second)
	b.wantTake(1, "t", delayed, second)
}

// testReschedule: ready and delayed jobs get another due time, to the millisecond.
func testReschedule(b *harness) {
	due := func(id uint64, in time.Duration) bool {
		return !b.do(storage.Op{Kind: storage.Reschedule, ID: id, In: in}).NotFound
	}
	ready, delayed := b.put("t", 5), b.putWith("t", 6, 500, 60, "late")
	held := b.put("u", 5)
	b.wantTake(1, "u", held)
	if due(held, time.Second) || due(held+1, 0) {
		b.Error("a reserved job, or none, was rescheduled")
	}
	if !due(ready, 40_500*time.Millisecond) || !due(delayed, 20*time.Second) {
		b.Fatal("not rescheduled")
	}
	if s := b.job(ready); s.State != tube.Delayed || s.Delay != 41 || s.TimeLeft > 40_500*time.Millisecond || s.TimeLeft < 30*time.Second {
		b.Errorf("the one that was ready: %+v", s)
	}
	b.wantTake(1, "t")
	b.advance(21 * time.Second)
	b.wantTake(1, "t", delayed)
	if !due(ready, 0) {
		b.Fatal("not rescheduled again")
	}
	b.wantTake(1, "t", ready)
	if s := b.job(ready); s.Counters[tube.Reserves] != 1 || s.Counters[tube.Kicks] != 0 || s.Delay != 0 {
		b.Errorf("in the end: %+v", s)
	}
}
