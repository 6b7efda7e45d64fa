package storetest

import (
	"redstalk/storage"
	"redstalk/tube"
)

// testBatchOrder checks that the operations of a batch take effect in order.
func testBatchOrder(b *harness) {
	take := storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}}
	put := storage.Op{Kind: storage.Put, Tube: "t", TTR: 60}
	done := b.batch(take, put, put, take, take, take,
		storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: 1},
		storage.Op{Kind: storage.JobStats, ID: 1},
		storage.Op{Kind: storage.TubeStats, Tube: "t"},
		storage.Op{Kind: storage.Stats})
	for i, want := range map[int]uint64{0: 0, 1: 1, 2: 2, 3: 1, 4: 2, 5: 0} {
		if got := done[i].Answer.ID; got != want {
			b.Errorf("operation %d: job %d, want %d", i, got, want)
		}
	}
	if !done[7].Answer.NotFound {
		b.Errorf("job 1 still exists: %+v", done[7].Answer.Job)
	}
	if s := done[8].Answer.TubeStats; s == nil || s.Reserved != 1 || s.Deletes != 1 || s.Total != 2 {
		b.Errorf("the tube: %+v", s)
	}
	if s := done[9].Answer.Stats; s == nil || s.Reserved != 1 || s.Ready != 0 || s.Jobs != 2 {
		b.Errorf("all tubes: %+v", s)
	}
}

// testKickedAndReleased kicks jobs, and then releases another one, in one batch. All are
// ready after it.
func testKickedAndReleased(b *harness) {
	take := storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}}
	put := storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Pri: 7}
	move := func(m tube.Move, id uint64) storage.Op {
		return storage.Op{Kind: storage.Move, Move: m, Holder: 1, ID: id, Pri: 7}
	}
	b.batch(put, put, put, take, take, take)
	done := b.batch(move(tube.Bury, 1), move(tube.Bury, 2), storage.Op{Kind: storage.Kick, Tube: "t", MaxJobs: 9}, move(tube.Release, 3),
		storage.Op{Kind: storage.TubeStats, Tube: "t"}, take, take, take)
	if s := done[4].Answer.TubeStats; s == nil || s.Ready != 3 || s.Buried != 0 || s.Reserved != 0 {
		b.Errorf("the tube: %+v", s)
	}
	for i := range uint64(3) {
		if got := done[5+i].Answer.ID; got != i+1 {
			b.Errorf("took job %d, want %d", got, i+1)
		}
	}
}

func testLargeBatch(b *harness) {
	const jobs = 5000
	b.usePlain()
	ops := make([]storage.Op, jobs)
	for i := range ops {
		ops[i] = storage.Op{Kind: storage.Put, Tube: "t", Pri: uint32(i % 7), TTR: 60}
	}
	last := uint64(0)
	for i, op := range b.batch(ops...) {
		if id := op.Answer.ID; id <= last || !b.engine.LearnIDs && id != last+1 {
			b.Fatalf("put %d got id %d, the one before %d", i+1, id, last)
		}
		last = op.Answer.ID
	}
}

// testLongKick kicks more jobs than an engine kicks in one part, with another operation after
// it in the batch.
func testLongKick(b *harness) {
	const jobs = 1203
	var ops []storage.Op
	for range jobs {
		ops = append(ops, storage.Op{Kind: storage.Put, Tube: "t", Delay: 100, TTR: 9})
	}
	b.batch(ops...)
	kick := storage.Op{Kind: storage.Kick, Tube: "t", MaxJobs: jobs - 1}
	peek := storage.Op{Kind: storage.PeekHead, Tube: "t", State: tube.Delayed}
	done := b.batch(kick, peek, kick, peek)
	if got := done[0].Answer.Count; got != jobs-1 {
		b.Errorf("kicked %d, want %d", got, jobs-1)
	}
	if got := done[1].Answer.ID; got != jobs {
		b.Errorf("then the first delayed job is %d, want %d", got, jobs)
	}
	if got := done[2].Answer.Count; got != 1 {
		b.Errorf("kicked %d more, want 1", got)
	}
	if !done[3].Answer.NotFound {
		b.Errorf("then there is a delayed job: %d", done[3].Answer.ID)
	}
}

// testReleaseMany releases all jobs of a holder that holds more jobs than an engine gives back
// in one part.
func testReleaseMany(b *harness) {
	const jobs = 1203
	b.usePlain()
	var puts, takes []storage.Op
	for range jobs {
		puts = append(puts, storage.Op{Kind: storage.Put, Tube: "t", TTR: 60})
		takes = append(takes, storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}})
	}
	b.batch(puts...)
	b.batch(takes...)
	b.releaseAll(1)
	if t := b.totals(); t.Ready != jobs || t.Reserved != 0 {
		b.Errorf("after the release of all %d are ready and %d reserved", t.Ready, t.Reserved)
	}
}

// testManyConnections runs several holders in parallel. Every job must be taken by exactly one
// of them.
func testManyConnections(b *harness) {
	const holders, jobs = 8, 50
	taken := make(chan uint64, holders*jobs)
	for h := range tube.Holder(holders) {
		go func() {
			ops := make([]storage.Op, 0, 2*jobs)
			for range jobs {
				ops = append(ops, storage.Op{Kind: storage.Put, Tube: "t", TTR: 60})
				ops = append(ops, storage.Op{Kind: storage.Take, Holder: h + 1, Tubes: []string{"t"}})
			}
			storage.DoWait(b.store, ops)
			for i := 1; i < len(ops); i += 2 {
				taken <- ops[i].Answer.ID
			}
		}()
	}
	seen := make(map[uint64]bool)
	for range holders * jobs {
		id := <-taken
		if id == 0 || seen[id] {
			b.Fatalf("job %d was taken twice, or there was none", id)
		}
		seen[id] = true
	}
}
