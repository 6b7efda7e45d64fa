package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Cases about groups with many jobs or many takers.

// try carries out an operation on any goroutine. An error fails the test.
func (b *harness) try(op storage.Op) storage.Answer {
	ops := []storage.Op{op}
	storage.DoWait(b.store, ops)
	Receive(&ops[0].Answer)
	if err := ops[0].Answer.Err; err != nil {
		b.Errorf("%v: %v", op.Kind, err)
	}
	return ops[0].Answer
}

// race lets 8 holders take and finish the n jobs of a group at the same time, until all are
// done. It returns how many were reserved at once, at most. Every fourth time a job is not
// finished but comes back.
func (b *harness) race(group string, n int) (most int) {
	b.reopens = false
	b.putGroups("t", times(n, group)...)
	var running, peak, done, turns atomic.Int64
	var workers sync.WaitGroup
	for h := range tube.Holder(8) {
		workers.Go(func() {
			for done.Load() < int64(n) && !b.Failed() {
				a := b.try(storage.Op{Kind: storage.Take, Holder: 1 + h, Tubes: []string{"t"}})
				if a.NotFound {
					continue
				}
				now := running.Add(1)
				for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
				}
				end := storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1 + h, ID: a.ID}
				switch turns.Add(1) % 8 {
				case 0:
					end.Move = tube.Release
				case 4:
					end = storage.Op{Kind: storage.ReleaseAll, Holder: 1 + h}
				}
				running.Add(-1) // before the slot is free
				if b.try(end); end.Move == tube.Delete {
					done.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return int(peak.Load())
}

// testNeverAboveTwo: takers at the same time never get three jobs at limit 2, and the limit is used.
func testNeverAboveTwo(b *harness) {
	b.setPolicy("t", groupPolicy(2))
	if most := b.race("g", atLength(300)); most > 2 {
		b.Errorf("%d jobs were reserved at limit 2", most)
	}
	b.wantCounts("all done", "t", "g", 0, 0, 0, 0)
}

// testNeverAboveInBatch: many takes at once reserve exactly as many jobs of each group as the limit
// allows, with jobs of other groups and without a group between them.
func testNeverAboveInBatch(b *harness) {
	b.reopens = false
	take := storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}}
	for limit := uint32(1); limit <= 12; limit++ {
		for _, groups := range [][]string{{"g"}, {"g", "h"}, {"g", "", "h"}} {
			b.setPolicy("t", groupPolicy(limit))
			b.putGroups("t", slices.Repeat(groups, 15)...)
			b.batch(take)
			b.batch(slices.Repeat([]storage.Op{take}, 60)...)
			for _, group := range groups {
				if s := b.group("t", group); s != nil && s.Reserved != uint64(limit) {
					b.Errorf("limit %d, groups %q: %d of %s are reserved", limit, groups, s.Reserved, group)
				}
			}
			all := 2 * limit // of the tube
			b.setPolicy("t", &tube.Policy{Limits: tube.Limits{Concurrency: all}})
			b.flush("t", tube.Reserved)
			b.batch(slices.Repeat([]storage.Op{take}, 60)...)
			if s := b.tube("t"); s.Reserved != min(uint64(all), s.Reserved+s.Ready) {
				b.Errorf("limit %d of the tube, groups %q: %d are reserved", all, groups, s.Reserved)
			}
			b.flush("t", tube.Reserved)
			b.flush("t", tube.Gone)
		}
	}
}

// testNeverAboveOne is the same with strict order, with set-group, and with the limit of the tube.
func testNeverAboveOne(b *harness) {
	one := tube.Limits{Concurrency: 1}
	for name, set := range map[string]func(){
		"strict":    func() { b.setPolicy("t", &tube.Policy{GroupOrder: tube.Strict}) },
		"tube":      func() { b.setPolicy("t", &tube.Policy{Limits: one}) },
		"set-group": func() { b.setGroup("t", "g", &tube.GroupConfig{Limits: one, Weight: 1}) },
	} {
		set()
		if most := b.race("g", atLength(100)); most != 1 {
			b.Errorf("%s: %d jobs were reserved at limit 1", name, most)
		}
		b.setPolicy("t", nil)
	}
}

// patience is how long a test waits for a wake-up that must come at once.
const patience = 30 * time.Second

// testNoLostWakeUp: with nothing but wake-ups, as many jobs run as the limit allows until all are
// done, whatever frees the slots. On two instances takers of both wait.
func testNoLostWakeUp(b *harness) {
	b.reopens = false
	jobs := 2 * atLength(150)
	b.setPolicy("t", groupPolicy(2))
	b.putGroups("t", times(jobs/2, "g")...)
	b.putGroups("t", times(jobs/2, "h")...)
	var done atomic.Int64
	finished := make(chan struct{})
	var takers, workers sync.WaitGroup
	for h := range tube.Holder(2) {
		woken := b.listener.notify()
		takers.Go(func() {
			for done.Load() < int64(jobs) && !b.Failed() {
				a := b.try(storage.Op{Kind: storage.Take, Holder: 1 + h, Tubes: []string{"t"}, Wait: true})
				if !a.NotFound {
					workers.Go(func() { b.finish(1+h, a.ID, int64(jobs), &done, finished) })
					continue
				}
				select {
				case <-woken:
				case <-finished:
				case <-time.After(patience):
					b.Errorf("a wake-up was lost: %d jobs are done, and the groups are %+v", done.Load(), b.try(storage.Op{Kind: storage.ListGroups, Tube: "t", MaxJobs: 9}).Result)
				}
			}
		})
	}
	takers.Wait()
	workers.Wait()
}

// finish ends a reservation: mostly it deletes the job, and else it gives it back.
func (b *harness) finish(h tube.Holder, id uint64, jobs int64, done *atomic.Int64, finished chan struct{}) {
	op := storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: h, ID: id}
	if s := b.try(storage.Op{Kind: storage.JobStats, ID: id}).Job; s != nil && s.Counters[tube.Reserves] == 1 && id%3 == 0 {
		op.Move, op.Pri = tube.Release, 10
	}
	if b.try(op); op.Move == tube.Delete && done.Add(1) == jobs {
		close(finished)
	}
}

// notify returns a channel that has an element after each wake-up.
func (e *listener) notify() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	woken := make(chan struct{}, 1)
	e.waiters = append(e.waiters, woken)
	return woken
}

// usePlain goes on with the engine that gives its own ids, if there is one. With the other one the
// model, which knows the ids, takes minutes for many jobs.
func (b *harness) usePlain() {
	if plain := b.engine.Plain; plain != nil {
		b.close()
		b.engine = plain
		b.open()
	}
}

// testManyBlocked: 50,000 jobs that are held, of one group and of many, do not make a take slow. Of an engine that is
// another process its own tests count the work.
func testManyBlocked(b *harness) {
	if b.engine.runsByItself() {
		return
	}
	b.reopens = false
	b.usePlain()
	const limit = time.Millisecond
	blocked := atLength(50_000)
	b.setPolicy("t", groupPolicy(1))
	groups := times(blocked/2, "large")
	for i := range blocked / 2 {
		groups = append(groups, fmt.Sprint("small ", i/10))
	}
	b.putGroups("t", groups...)
	take := storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}}
	for range blocked/20/500 + 1 {
		b.batch(slices.Repeat([]storage.Op{take}, 500)...)
	}
	if s := b.tube("t"); s.Reserved != uint64(blocked/20+1) || b.take(1, "t") != 0 {
		b.Fatalf("not one job of each group is reserved: %+v", s)
	}
	const tries = 5 // a sync of the disk can take longer than the limit all the time of a try
	for try := range tries {
		free, eligible := b.fastestTake("u", ""), b.fastestTake("t", "eligible")
		b.Logf("a take beside %d held jobs takes %v, one without %v", blocked, eligible, free)
		if eligible-free <= limit {
			return
		}
		if try == tries-1 {
			b.Errorf("the fastest of 20 takes takes %v, and %v without held jobs, and no try before was better", eligible, free)
		}
	}
}

// testNeverBinds: a limit that never holds a job does not halve the throughput.
func testNeverBinds(b *harness) {
	b.reopens = false
	b.usePlain()
	never := tube.Limits{Concurrency: 1_000_000}
	free, limited := time.Hour, time.Hour
	for n := 0; n < 3 || limited > 2*free && n < 50; n++ { // by turns, because others keep the machine busy
		b.setPolicy("t", nil)
		free = min(free, b.cycle("t"))
		b.setPolicy("t", &tube.Policy{Limits: never, GroupLimits: never})
		limited = min(limited, b.cycle("t"))
	}
	b.Logf("with the limit %v, without %v", limited, free)
	if limited > 2*free {
		b.Errorf("300 jobs take %v with a limit that never binds, and %v without", limited, free)
	}
}

// cycle returns how long 300 jobs of a tube, in 100 groups, take from their puts to their deletes.
func (b *harness) cycle(name string) time.Duration {
	b.Helper()
	const jobs = 300
	groups := make([]string, jobs)
	for i := range groups {
		groups[i] = fmt.Sprint("g", i%100)
	}
	begun := time.Now()
	b.putGroups(name, groups...)
	takes := slices.Repeat([]storage.Op{{Kind: storage.Take, Holder: 1, Tubes: []string{name}}}, jobs)
	b.batch(takes...)
	deletes := make([]storage.Op, jobs)
	for i := range deletes {
		if takes[i].Answer.NotFound {
			b.Fatal("a limit that never binds holds a job")
		}
		deletes[i] = storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: takes[i].Answer.ID}
	}
	b.batch(deletes...)
	return time.Since(begun)
}

// fastestTake returns the shortest time of 20 takes of the only job of a tube that can be taken.
func (b *harness) fastestTake(name, group string) time.Duration {
	b.Helper()
	best := time.Hour
	for range 20 {
		id := b.putGroup(name, group, 4294967295)
		began := time.Now()
		a := b.try(storage.Op{Kind: storage.Take, Holder: 2, Tubes: []string{name}})
		best = min(best, time.Since(began))
		if a.ID != id {
			b.Fatalf("took %d, want %d", a.ID, id)
		}
		b.must(tube.Delete, 2, id)
	}
	return best
}
