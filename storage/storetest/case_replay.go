package storetest

import (
	"reflect"
	"strings"
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
	tags.Max, tags.Dead = 1, "morgue"
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

// wantOwnRules checks the rules that a job was put with, and the rules that apply to it.
func (b *harness) wantOwnRules(what string, id uint64, own, apply tube.Rules) {
	b.Helper()
	if s := b.job(id); s.Metadata == nil || !reflect.DeepEqual(s.Metadata.Rules, own) || !reflect.DeepEqual(s.Rules, apply) {
		b.Fatalf("%s: %+v, with metadata %+v", what, s, s.Metadata)
	}
}

// failThere lets job id, which is not reserved, fail twice more than its own rules allow. They must not apply.
func (b *harness) failThere(id uint64, apply tube.Rules) {
	b.Helper()
	own := b.job(id).Metadata.Rules
	for range 3 {
		b.must(tube.ReserveJob, 1, id)
		b.must(tube.Release, 1, id)
	}
	b.wantRetries("a dead letter that fails", id, tube.Ready, tube.NotParked, 3, 3)
	b.wantOwnRules("a dead letter that fails", id, own, apply)
}

// testReplayRules: the own rules of a job do not apply while it is a dead letter, and apply again when it
// has been sent back.
func testReplayRules(b *harness) {
	b.ref(tube.Using, 1, "t", "morgue", "u")
	waits := []time.Duration{0, 250 * time.Millisecond}
	for _, rules := range []tube.Rules{
		{Retry: waits, KeyTTL: 100 * time.Second, HasKeyTTL: true},
		{Retry: []time.Duration{time.Second, time.Hour}, Doubled: 7, Jitter: tube.JitterOf(3), OnExpire: tube.ExpirePark},
		{},
	} {
		for _, tags := range []tube.Tags{{}, {Key: "k", Group: "g", Batch: "x", Meta: someMeta()}} {
			body := strings.Repeat("x", 20_000*len(tags.Key))
			tags.Rules = rules
			_, dead := b.exhaust(tags, body)
			rules.Max, rules.Dead = 1, "morgue"
			b.wantOwnRules("a dead letter", dead, rules, tube.Rules{})
			b.failThere(dead, tube.Rules{})
			b.replay(dead)
			back := b.head("t", tube.Ready)
			b.wantOwnRules("sent back", back, rules, rules)
			b.wantRetries("sent back", back, tube.Ready, tube.NotParked, 0, 0)
			b.must(tube.ReserveJob, 1, back)
			b.must(tube.Release, 1, back)
			b.awaitSent(back)
			dead = b.head("morgue", tube.Ready)
			b.wantOwnRules("a dead letter once more", dead, rules, tube.Rules{})
			if a := b.do(storage.Op{Kind: storage.Peek, ID: dead}); string(a.Body) != body || b.job(dead).Metadata.Key != tags.Key {
				b.Errorf("a dead letter once more: %+v with %d bytes", b.job(dead).Metadata, len(a.Body))
			}
			b.must(tube.Delete, 1, dead)
			b.flush("t", tube.Gone)
			b.advance(101 * time.Second) // the end of the tombstone
		}
	}
}

// testReplayCircle: a job that is replayed has all its retries again, and then becomes a dead letter again.
func testReplayCircle(b *harness) {
	rules := tube.Rules{Retry: []time.Duration{0, 0}, Dead: "morgue"}
	id := b.putNew("t", tube.Tags{Rules: rules})
	for range 3 {
		for failures := range uint32(3) {
			b.wantRetries("at home", id, tube.Ready, tube.NotParked, failures, failures)
			b.must(tube.ReserveJob, 1, id)
			b.must(tube.Release, 1, id)
		}
		b.awaitSent(id)
		dead := b.head("morgue", tube.Ready)
		b.must(tube.ReserveJob, 1, dead)
		b.giveBack(1)
		b.must(tube.ReserveJob, 1, dead)
		b.must(tube.Release, 1, dead)
		b.replay(dead)
		id = b.head("t", tube.Ready)
	}
}

// testReplayByMoves: a dead letter has its own rules again after each way home, and nowhere else.
func testReplayByMoves(b *harness) {
	rules := tube.Rules{Max: 1, Dead: "morgue"}
	_, dead := b.exhaust(tube.Tags{}, "body")
	b.failThere(dead, tube.Rules{})
	b.moveJobs("morgue", tube.Ready, "u", 1)
	moved := b.head("u", tube.Ready)
	b.wantOwnRules("moved elsewhere", moved, rules, tube.Rules{})
	b.wantRetries("moved elsewhere", moved, tube.Ready, tube.NotParked, 3, 3)
	b.moveJobs("u", tube.Ready, "t", 1)
	back := b.head("t", tube.Ready)
	b.wantOwnRules("moved home", back, rules, rules)
	b.wantRetries("moved home", back, tube.Ready, tube.NotParked, 0, 0)
	b.moveJobs("t", tube.Ready, "u", 1) // it is no dead letter any more
	moved = b.head("u", tube.Ready)
	b.wantOwnRules("moved from home", moved, rules, rules)
	b.must(tube.Delete, 1, moved)

	_, dead = b.exhaust(tube.Tags{}, "body")
	b.setPolicy("morgue", &tube.Policy{Rules: tube.Rules{Retry: []time.Duration{0}}})
	b.must(tube.ReserveJob, 1, dead)
	b.must(tube.Release, 1, dead)
	b.must(tube.ReserveJob, 1, dead)
	b.must(tube.Release, 1, dead)
	b.wantRetries("by the policy of the dead-letter tube", dead, tube.Buried, tube.ParkedRetries, 2, 2)
	b.moveJobs("morgue", tube.Buried, "t", 1)
	back = b.head("t", tube.Buried)
	b.wantRetries("moved home while it is parked", back, tube.Buried, tube.ParkedRetries, 0, 0)
	b.must(tube.KickJob, 1, back)
	b.wantOwnRules("kicked at home", back, rules, rules)
	b.must(tube.Delete, 1, back)
}

// testReplayChain: a dead letter that becomes a dead letter again, by the policy of its tube, has no rules of
// its own any more.
func testReplayChain(b *harness) {
	policy := tube.Rules{Max: 1, Dead: "graves"}
	b.setPolicy("morgue", &tube.Policy{Rules: policy})
	_, dead := b.exhaust(tube.Tags{}, "body")
	b.wantOwnRules("the policy of its tube", dead, tube.Rules{Max: 1, Dead: "morgue"}, policy)
	b.must(tube.ReserveJob, 1, dead)
	b.must(tube.Release, 1, dead)
	b.awaitSent(dead)
	last := b.head("graves", tube.Ready)
	if s := b.job(last); s.Metadata == nil || s.Metadata.FromTube != "morgue" || s.Metadata.FromID != dead {
		b.Errorf("the dead letter of a dead letter: %+v, %+v", s, s.Metadata)
	}
	b.wantOwnRules("the dead letter of a dead letter", last, tube.Rules{}, tube.Rules{})
	b.replay(last)
	back := b.head("morgue", tube.Ready)
	b.wantOwnRules("sent back to a dead-letter tube", back, tube.Rules{}, policy)
	b.must(tube.Delete, 1, back)
}
