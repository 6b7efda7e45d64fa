package storetest

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// lease reserves a job by lease. It returns its id and the token; 0 if there is no job.
func (b *harness) lease(name string) (id, token uint64) {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.Take, Holder: tube.LeaseHolder, Tubes: []string{name}, Wait: true})
	if a.NotFound {
		return 0, 0
	}
	if a.Result == nil || a.Result.Lease == 0 {
		b.Fatalf("job %d was leased without a token", a.ID)
	}
	return a.ID, a.Result.Lease
}

// leased does a move by lease and returns whether it was possible.
func (b *harness) leased(m tube.Move, id, token uint64) bool {
	b.Helper()
	return !b.do(storage.Op{Kind: storage.Move, Move: m, Holder: tube.LeaseHolder, ID: id, Pri: 44, Args: &storage.Args{Lease: token}}).NotFound
}

// testLeases finishes leased jobs in every way, with the right token and with wrong ones.
func testLeases(b *harness) {
	if id, _ := b.lease("t"); id != 0 {
		b.Fatalf("leased job %d", id)
	}
	first := b.put("t", 5)
	id, token := b.lease("t")
	if s := b.job(id); id != first || s.State != tube.Reserved || !s.Leased || s.Counters[tube.Reserves] != 1 {
		b.Fatalf("leased %+v", s)
	}
	for _, move := range []tube.Move{tube.Delete, tube.Release, tube.Bury, tube.Touch} {
		if b.leased(move, id, token+1) || b.leased(move, id, token-1) || b.leased(move, id, 0) || b.leased(move, id+1, token) || b.move(move, 1, id, 0, 0) {
			b.Errorf("%v succeeded without the token", move)
		}
	}
	b.advance(40 * time.Second)
	if !b.leased(tube.Touch, id, token) {
		b.Error("not touched")
	}
	b.releaseAll(1)
	b.advance(40 * time.Second)
	if s := b.job(id); s.State != tube.Reserved || s.TimeLeft > 20*time.Second {
		b.Errorf("80 s after the lease, 40 s after the touch: %+v", s)
	}
	b.advance(20_010 * time.Millisecond)
	if s := b.job(id); s.State != tube.Ready || s.Leased || s.Counters[tube.Timeouts] != 1 || b.leased(tube.Delete, id, token) {
		b.Errorf("after its TTR: %+v", s)
	}
	for _, c := range []struct {
		move  tube.Move
		state tube.State
		grows tube.Counter
	}{{tube.Release, tube.Ready, tube.Releases}, {tube.Bury, tube.Buried, tube.Buries}, {tube.Delete, tube.Gone, tube.NoCounter}} {
		token = b.leaseAgain(id, token)
		before := b.job(id).Counters
		if !b.leased(c.move, id, token) || b.leased(c.move, id, token) {
			b.Errorf("%v did not succeed exactly once", c.move)
		}
		s := b.job(id)
		if s.State != c.state || s.State != tube.Gone && (s.Pri != 44 || s.Leased || s.Counters[c.grows] != before[c.grows]+1) {
			b.Errorf("after %v: %+v", c.move, s)
		}
		b.move(tube.KickJob, 1, id, 0, 0)
	}
}

// leaseAgain leases job id again. Its token must be larger than the last one.
func (b *harness) leaseAgain(id, last uint64) (token uint64) {
	b.Helper()
	got, token := b.lease("t")
	if got != id || token <= last {
		b.Fatalf("leased job %d with the token %d after job %d with %d", got, token, id, last)
	}
	return token
}

// testLeaseRules: the rules apply to leased jobs too, and deleting by key works on them.
func testLeaseRules(b *harness) {
	id := b.putNew("t", tube.Tags{Key: "k", Rules: tube.Rules{Retry: []time.Duration{30 * time.Second}}})
	_, token := b.lease("t")
	b.wantPut("t", tube.Tags{Key: "k"}, tube.PutExisting, id, tube.Reserved)
	b.leased(tube.Release, id, token)
	b.wantDue("released", id, 30*time.Second, 30)
	b.advance(30_010 * time.Millisecond)
	token = b.leaseAgain(id, token)
	b.advance(60_010 * time.Millisecond)
	b.wantRetries("its TTR ran out", id, tube.Buried, tube.ParkedRetries, 2, 2)
	b.must(tube.KickJob, 1, id)
	token = b.leaseAgain(id, token)
	if !b.deleteKey("t", "k") || b.leased(tube.Delete, id, token) {
		b.Error("a leased job was not deleted by its key")
	}
	if a := b.do(storage.Op{Kind: storage.Take, Holder: tube.LeaseHolder, Tubes: []string{"t"}}); !a.NotFound || a.Soon != storage.Forever {
		b.Errorf("a lease of nothing was answered %+v", a)
	}
}

// testLeaseRefused: the holder of a lease rejects the job for good.
func testLeaseRefused(b *harness) {
	id := b.putNew("t", tube.Tags{Rules: tube.Rules{Retry: []time.Duration{time.Minute}, Max: 9}})
	_, token := b.lease("t")
	if b.leased(tube.Park, id, token+1) || b.move(tube.Park, 1, id, 0, 0) {
		b.Error("parked without the token")
	}
	if !b.leased(tube.Park, id, token) || b.leased(tube.Park, id, token) {
		b.Error("not parked exactly once")
	}
	b.wantRetries("refused", id, tube.Buried, tube.ParkedRefused, 0, 1)
	if s := b.job(id); s.Counters[tube.Buries] != 0 || s.Leased || s.Pri == 44 {
		b.Errorf("refused: %+v", s)
	}
	b.must(tube.KickJob, 1, id)
	b.wantRetries("kicked", id, tube.Ready, tube.NotParked, 0, 0)
	b.must(tube.Delete, 1, id)

	b.setPolicy("t", &tube.Policy{Rules: tube.Rules{Dead: "morgue"}})
	id = b.put("t", 5)
	_, token = b.lease("t")
	if !b.leased(tube.Park, id, token) {
		b.Error("not parked")
	}
	b.awaitSent(id)
	if s := b.job(b.take(1, "morgue")); s.Metadata == nil || s.Metadata.FromID != id {
		b.Errorf("the dead letter: %+v", s)
	}
	b.giveBack(1)
}
