package storetest

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// testSurvival closes and reopens a store.
func testSurvival(b *harness) {
	testReopened(b, func() { b.close() })
}

// testCrash reopens a store whose process was killed.
func testCrash(b *harness) {
	testReopened(b, func() {
		b.engine.Crash(b.store)
		b.store = nil
	})
}

// survivors are jobs that a store has when it ends.
type survivors struct {
	ready, delayed, deleted, held uint64
	buried                        []uint64
	buriedOrder                   []int // of buried
}

// testReopened checks what survives when a store ends by calling end.
func testReopened(b *harness, end func()) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	s := b.makeSurvivors()
	end()
	b.open()
	b.advance(10 * time.Second) // until an instance that is gone is declared dead
	b.checkSurvivors(s)
	b.checkBuried(s)
	if id := b.put("t", 0); id <= s.held {
		b.Errorf("id %d was used again", id)
	}
}

// makeSurvivors puts jobs into a paused tube, in all states.
func (b *harness) makeSurvivors() survivors {
	s := survivors{buriedOrder: []int{2, 0, 1}}
	s.ready, s.delayed, s.deleted = b.put("t", 5), b.putWith("t", 6, 100, 9, "delayed"), b.put("t", 0)
	s.buried = []uint64{b.put("t", 7), b.put("t", 8), b.put("t", 9)}
	s.held = b.putWith("t", 4, 0, 77, "held")
	for _, id := range []uint64{s.buried[2], s.buried[0], s.buried[1], s.held, s.deleted, s.ready} {
		b.must(tube.ReserveJob, 1, id)
	}
	for _, i := range s.buriedOrder {
		b.move(tube.Bury, 1, s.buried[i], uint32(70+i), 0)
	}
	b.move(tube.Release, 1, s.ready, 55, 0)
	b.must(tube.Delete, 1, s.deleted)
	b.pause("t", 1000)
	return s
}

// checkSurvivors checks the tube, and the jobs that are not buried.
func (b *harness) checkSurvivors(s survivors) {
	b.Helper()
	if j := b.job(s.ready); j.State != tube.Ready || j.Pri != 55 || j.Counters != (tube.Counters{tube.Reserves: 1, tube.Releases: 1}) {
		b.Errorf("a released job: %+v", j)
	}
	if j := b.job(s.delayed); j.State != tube.Delayed || j.TimeLeft > 90*time.Second || j.TimeLeft < 80*time.Second {
		b.Errorf("a delayed job: %+v", j)
	}
	if j := b.job(s.held); j.State != tube.Ready || j.TTR != 77 || j.Counters != (tube.Counters{}) {
		b.Errorf("a job that was reserved: %+v", j)
	}
	if j := b.job(s.deleted); j.State != tube.Gone {
		b.Errorf("a deleted job: %+v", j)
	}
	if t := b.tube("t"); t == nil || t.Pause != 1000 {
		b.Errorf("a paused tube: %+v", t)
	}
}

// checkBuried checks the buried jobs and their order, and kicks them.
func (b *harness) checkBuried(s survivors) {
	b.Helper()
	for _, i := range s.buriedOrder {
		if got := b.head("t", tube.Buried); got != s.buried[i] {
			b.Errorf("the first buried job is %d, want %d", got, s.buried[i])
		}
		if j := b.job(s.buried[i]); j.Pri != uint32(70+i) || j.Counters[tube.Buries] != 1 {
			b.Errorf("a buried job: %+v", j)
		}
		b.kick("t", 1)
	}
}

func testAfterClose(b *harness) {
	b.close()
	store := b.engine.Open(b)
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	ops := []storage.Op{{Kind: storage.Put, Tube: "t"}}
	storage.DoWait(store, ops)
	if ops[0].Answer.Err == nil {
		b.Error("a closed store accepted a job")
	}
}
