package storetest

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// replay replays a job, and waits until it has left its tube if it is sent back. It returns
// whether there was such a job.
func (b *harness) replay(id uint64) bool {
	b.Helper()
	s := b.job(id)
	if b.do(storage.Op{Kind: storage.Replay, ID: id}).NotFound {
		return false
	}
	if s.Metadata != nil && s.Metadata.FromTube != "" && s.Metadata.FromTube != s.Tube {
		b.awaitSent(id)
	}
	return true
}

// exhaust puts a job into tube "t" that goes to the dead-letter tube "morgue" after a failure, and
// returns its ids in both tubes.
func (b *harness) exhaust(tags tube.Tags, body string) (id, dead uint64) {
	b.Helper()
	tags.Rules = tube.Rules{Max: 1, Dead: "morgue", KeyTTL: tags.KeyTTL, HasKeyTTL: tags.HasKeyTTL}
	id = b.do(storage.Op{Kind: storage.Put, Tube: "t", Pri: 10, TTR: 77, Body: []byte(body), Args: &storage.Args{Tags: &tags}}).ID
	b.must(tube.ReserveJob, 1, id)
	b.must(tube.Release, 1, id)
	b.awaitSent(id)
	jobs, _ := b.list("morgue", tube.Ready, 1000, "")
	for _, s := range jobs {
		if s.Metadata != nil && s.Metadata.FromID == id {
			return id, s.ID
		}
	}
	b.Fatalf("job %d is not in the dead-letter tube: %+v", id, jobs)
	return 0, 0
}

// testReplayDeadLetters sends dead letters back to their tube, from each state.
func testReplayDeadLetters(b *harness) {
	into := map[tube.State]func(id uint64){
		tube.Ready:   func(uint64) {},
		tube.Delayed: func(id uint64) { b.must(tube.ReserveJob, 1, id); b.move(tube.Release, 1, id, 0, 100) },
		tube.Buried:  func(id uint64) { b.must(tube.ReserveJob, 1, id); b.move(tube.Bury, 1, id, 0, 0) },
	}
	b.ref(tube.Using, 1, "t", "morgue")
	for state, enter := range into {
		id, dead := b.exhaust(tube.Tags{}, "its body")
		enter(dead)
		before, deletes := b.tube("t").Total, b.tube("morgue").Deletes
		if s := b.job(dead); s.State != state || !b.replay(dead) {
			b.Fatalf("not replayed: %+v", s)
		}
		back := b.head("t", tube.Ready)
		b.wantRetries("sent back", back, tube.Ready, tube.NotParked, 0, 0)
		a, s := b.do(storage.Op{Kind: storage.Peek, ID: back}), b.job(back)
		if string(a.Body) != "its body" || s.TTR != 77 || s.Counters != (tube.Counters{}) || s.Metadata.FromTube != "t" || s.Metadata.FromID != id {
			b.Errorf("%v job sent back: %q, %+v, %+v", state, a.Body, s, s.Metadata)
		}
		m := b.tube("morgue")
		if b.job(dead).State != tube.Gone || m.Ready+m.Delayed+m.Buried != 0 || m.Deletes != deletes+1 || b.tube("t").Total != before+1 {
			b.Errorf("after a replay: %+v, %+v", m, b.tube("t"))
		}
		if b.replay(dead) || b.replay(back) {
			b.Error("a job was replayed twice")
		}
		b.must(tube.ReserveJob, 1, back)
		if b.replay(back) {
			b.Error("a reserved job was replayed")
		}
		b.must(tube.Delete, 1, back)
	}
	_, dead := b.exhaust(tube.Tags{}, "held")
	b.must(tube.ReserveJob, 1, dead)
	if b.replay(dead) || b.replay(dead+1000) {
		b.Error("replayed what is reserved, or does not exist")
	}
	b.must(tube.Delete, 1, dead)
}

// testReplayBuried: a buried job that is no dead letter is kicked.
func testReplayBuried(b *harness) {
	parked := b.putNew("t", tube.Tags{Rules: tube.Rules{Max: 1}})
	b.must(tube.ReserveJob, 1, parked)
	b.must(tube.Release, 1, parked)
	b.wantRetries("parked", parked, tube.Buried, tube.ParkedDeliveries, 1, 1)
	buried, ready, delayed := b.put("t", 5), b.put("t", 6), b.putWith("t", 7, 100, 60, "")
	b.must(tube.ReserveJob, 1, buried)
	b.must(tube.Bury, 1, buried)
	if !b.replay(parked) || !b.replay(buried) || b.replay(ready) || b.replay(delayed) {
		b.Error("the buried jobs must be replayed, and only they")
	}
	b.wantRetries("replayed", parked, tube.Ready, tube.NotParked, 0, 0)
	if s := b.job(buried); s.State != tube.Ready || s.Counters[tube.Kicks] != 1 {
		b.Errorf("replayed: %+v", s)
	}
	if s := b.tube("t"); s.Ready != 3 || s.Buried != 0 || s.Delayed != 1 {
		b.Errorf("in the end: %+v", s)
	}
}

// testReplayKeys: a job that is sent back has its key, unless that is taken.
func testReplayKeys(b *harness) {
	_, dead := b.exhaust(tube.Tags{Key: "k"}, "one")
	b.replay(dead)
	back := b.peekKey("t", "k").ID
	if s := b.job(back); back == 0 || s.State != tube.Ready || !b.peekKey("morgue", "k").NotFound {
		b.Fatalf("the key after a replay: job %d, %+v", back, s)
	}
	b.must(tube.Delete, 1, back)
	_, dead = b.exhaust(tube.Tags{Key: "k"}, "two")
	other := b.putNew("t", tube.Tags{Key: "k"})
	b.replay(dead)
	if b.peekKey("t", "k").ID != other || b.tube("t").Ready != 2 {
		b.Errorf("the key is taken: %+v", b.tube("t"))
	}
	b.flush("t", tube.Gone)
	held := tube.Tags{Key: "k", Rules: tube.Rules{KeyTTL: 50 * time.Second, HasKeyTTL: true}}
	_, dead = b.exhaust(held, "three") // the key stays taken by the job that was exhausted
	b.replay(dead)
	if b.peekKey("t", "k").NotFound {
		b.Error("a tombstone has taken the key of the job that came back")
	}
}
