package storetest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// kept are the tags of a job that leaves a record for an hour.
func kept() tube.Tags { return tube.Tags{Rules: tube.Rules{Keep: tube.LifetimeOf(time.Hour)}} }

// ended asks what has become of a job.
func (b *harness) ended(id uint64, wait bool) storage.Answer {
	b.Helper()
	return b.do(storage.Op{Kind: storage.WaitEnded, ID: id, Wait: wait})
}

// record returns the record of an ended job, nil if there is none.
func (b *harness) record(id uint64) *tube.Ended {
	b.Helper()
	a := b.ended(id, false)
	if a.Result == nil || len(a.Result.Ended) == 0 {
		return nil
	}
	return a.Result.Ended[0]
}

// wantEnded checks how a job has ended.
func (b *harness) wantEnded(what string, id uint64, how tube.How) *tube.Ended {
	b.Helper()
	r := b.record(id)
	if r == nil || r.ID != id || r.How != how {
		b.Fatalf("%s: the record of job %d is %.500s, want that it is %v", what, id, fmt.Sprintf("%+v", r), how)
	}
	return r
}

// finishWith ends a job with a result.
func (b *harness) finishWith(h tube.Holder, id, lease uint64, result string) storage.Answer {
	b.Helper()
	return b.do(storage.Op{
		Kind: storage.Move, Move: tube.Finish, Holder: h, ID: id, Args: &storage.Args{Lease: lease, Data: []byte(result), By: "worker"},
	})
}

// listEnded returns all records of a tube, or of a batch if that is not "", in pages of count.
func (b *harness) listEnded(name, batch string, count uint32) (all []*tube.Ended) {
	b.Helper()
	for cursor := ""; ; {
		r := b.do(storage.Op{Kind: storage.ListEnded, Tube: name, MaxJobs: count, Args: &storage.Args{Name: batch, Cursor: cursor}}).Result
		if n := len(r.Ended); n > int(count) || n == 0 && r.Cursor != "" {
			b.Fatalf("a page of %d records has %d, and the cursor %q", count, n, r.Cursor)
		}
		if all = append(all, r.Ended...); r.Cursor == "" {
			return all
		}
		if last := strconv.FormatUint(all[len(all)-1].Seq, 10); r.Cursor != last {
			b.Fatalf("the cursor is %s, want %s", r.Cursor, last)
		}
		cursor = r.Cursor
	}
}

// wantEndedList checks which jobs a list of records has, the newest first.
func (b *harness) wantEndedList(what, name, batch string, count uint32, ids ...uint64) {
	b.Helper()
	var got []uint64
	for _, r := range b.listEnded(name, batch, count) {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, ids) {
		b.Errorf("%s: the records are %v, want %v", what, got, ids)
	}
}

// testEnds ends jobs in each way.
func testEnds(b *harness) {
	b.putNew("dead", tube.Tags{}) // so that the tube exists
	done := b.putNew("t", kept())
	b.wantTake(1, "t", done)
	b.must(tube.Delete, 1, done)
	if r := b.wantEnded("deleted by its holder", done, tube.Done); len(r.Result) > 0 || r.Deliveries != 1 || r.Tube != "t" || r.At < r.Put || r.Until.Plus(-time.Hour) != r.At {
		b.Errorf("a deleted job has the record %+v", r)
	}
	for _, end := range []struct {
		what string
		how  tube.How
		end  func(id uint64)
	}{
		{"deleted while ready", tube.Deleted, func(id uint64) { b.must(tube.Delete, 1, id) }},
		{"flushed", tube.Deleted, func(uint64) { b.flush("t", tube.Ready) }},
		{"removed by its key", tube.Deleted, func(uint64) { b.deleteKey("t", "k") }},
		{"replaced", tube.Deleted, func(uint64) {
			b.must(tube.Delete, 1, b.putNew("t", tube.Tags{Key: "k", OnDuplicate: tube.Replace}))
		}},
		{"moved", tube.Moved, func(uint64) { b.moveJobs("t", tube.Ready, "u", 1) }},
	} {
		tags := kept()
		tags.Key = "k"
		id := b.putNew("t", tags)
		end.end(id)
		if r := b.wantEnded(end.what, id, end.how); r.Key != "k" || r.Deliveries != 0 || r.Started != 0 {
			b.Errorf("%s: the record is %+v", end.what, r)
		}
	}
	moved := b.listEnded("t", "", 1)[0]
	if s := b.job(moved.ToID); s.Tube != "u" || moved.ToTube != "u" {
		b.Errorf("a moved job has the record %+v, the other job is %+v", moved, s)
	}
	none := b.putNew("t", tube.Tags{Key: "k"})
	if a := b.ended(none, true); a.Result == nil || !a.Result.NotKept {
		b.Errorf("a wait for a job without a record was answered %+v", a)
	}
	b.must(tube.Delete, 1, none)
	if a := b.ended(none, false); !a.NotFound || a.Result != nil {
		b.Errorf("a job that left no record was answered %+v", a)
	}
}

// testEndsByRules ends jobs that expire or are exhausted, and jobs of tubes with policies.
func testEndsByRules(b *harness) {
	rules := kept().Rules
	rules.Max, rules.Dead = 1, "dead"
	id := b.putNew("t", tube.Tags{Key: "k", Rules: rules})
	b.fail(tube.Release, id, "no luck")
	b.awaitSent(id)
	r := b.wantEnded("exhausted", id, tube.Dead)
	if s := b.job(r.ToID); r.ToTube != "dead" || s.Tube != "dead" || r.Reason != "no luck" || r.Failures != 1 || r.Deliveries != 1 {
		b.Errorf("a dead letter's job has the record %+v, and the other job is %+v", r, s)
	}
	b.setPolicy("dead", &tube.Policy{Rules: tube.Rules{Keep: tube.LifetimeOf(time.Minute)}})
	b.replay(r.ToID)
	if back := b.wantEnded("sent back", r.ToID, tube.Moved); back.ToTube != "t" {
		b.Errorf("a dead letter that was sent back has the record %+v", back)
	}
	b.setPolicy("p*", &tube.Policy{Rules: tube.Rules{Keep: tube.LifetimeOf(time.Minute)}})
	plain := b.put("plain", 1)
	b.wantTake(1, "plain", plain)
	b.must(tube.Delete, 1, plain)
	b.wantEnded("of a tube with a policy", plain, tube.Done)
	off := b.putNew("plain", tube.Tags{Rules: tube.Rules{Keep: tube.LifetimeOf(0)}})
	b.must(tube.Delete, 1, off)
	if r := b.record(off); r != nil {
		b.Errorf("a job that wants no record has %+v", r)
	}
	tags := kept()
	tags.Expire = tube.LifetimeOf(time.Second)
	over := b.putNew("t", tags)
	b.advance(2 * time.Second)
	b.wantEnded("expired", over, tube.Expired)
	b.advance(time.Minute + time.Second)
	if r := b.record(plain); r != nil {
		b.Errorf("a record is still there after its time: %+v", r)
	}
	b.wantEndedList("after their time", "plain", "", 10)
}

// testFinish ends jobs with results.
func testFinish(b *harness) {
	tags := kept()
	tags.Meta, tags.Group = []tube.Meta{{Name: "a", Value: "b c"}}, "g"
	id := b.putNew("t", tags)
	if a := b.finishWith(1, id, 0, "early"); !a.NotFound {
		b.Errorf("a job that nobody holds was finished: %+v", a)
	}
	b.wantTake(1, "t", id)
	if a := b.finishWith(2, id, 0, "by another"); !a.NotFound {
		b.Errorf("a job was finished by another holder: %+v", a)
	}
	b.advance(1500 * time.Millisecond)
	result := string(bytes.Repeat([]byte("\x00result\xff"), tube.MaxResult/8))
	if a := b.finishWith(1, id, 0, result); a.NotFound || a.Result != nil {
		b.Fatalf("a finish was answered %+v", a)
	}
	r := b.wantEnded("finished", id, tube.Done)
	if string(r.Result) != result || r.Holder != "worker" || r.Group != "g" || !slices.Equal(r.Meta, tags.Meta) {
		r.Result = nil
		b.Errorf("a finished job has the record %+v", r)
	}
	if r.Started != 0 && (r.Started < r.Put || r.At.Plus(-1500*time.Millisecond) < r.Started) {
		b.Errorf("a job was put at %d, started at %d and finished at %d", r.Put, r.Started, r.At)
	}
	if a := b.finishWith(1, id, 0, "again"); !a.NotFound {
		b.Errorf("a job was finished twice: %+v", a)
	}
	plain := b.putNew("t", tube.Tags{Key: "k"})
	b.wantTake(1, "t", plain)
	if a := b.finishWith(1, plain, 0, "x"); a.Result == nil || !a.Result.NotKept || b.job(plain).State != tube.Reserved {
		b.Errorf("a job without keep was finished: %+v", a)
	}
	leased := b.putNew("l", kept())
	_, token := b.lease("l")
	if a := b.finishWith(tube.LeaseHolder, leased, token+1, "x"); !a.NotFound {
		b.Errorf("a job was finished with a wrong token: %+v", a)
	}
	if a := b.finishWith(tube.LeaseHolder, leased, token, "by lease"); a.NotFound || a.Result != nil {
		b.Errorf("finishing a leased job was answered %+v", a)
	}
	if r := b.wantEnded("finished by its lease", leased, tube.Done); string(r.Result) != "by lease" {
		b.Errorf("the record is %+v", r)
	}
}

// testEndedPages lists records, of tubes and of batches.
func testEndedPages(b *harness) {
	var ids, members []uint64
	for i := range 25 {
		tags := kept()
		if i%3 == 0 {
			tags.Batch = "b"
		}
		id := b.putNew("t", tags)
		b.wantTake(1, "t", id)
		b.finishWith(1, id, 0, fmt.Sprint(i))
		if ids = append(ids, id); tags.Batch != "" {
			members = append(members, id)
		}
	}
	slices.Reverse(ids)
	slices.Reverse(members)
	for _, count := range []uint32{1, 7, 25, 100} {
		b.wantEndedList("all", "t", "", count, ids...)
		b.wantEndedList("of a batch", "", "b", count, members...)
	}
	b.wantEndedList("of another tube", "u", "", 3)
	if s := b.do(storage.Op{Kind: storage.Stats}).Stats; s.Ended != 25 || s.EndedBytes == 0 {
		b.Errorf("the store has %d records with %d bytes", s.Ended, s.EndedBytes)
	}
	large := bytes.Repeat([]byte("x"), tube.MaxResult)
	for range 40 {
		id := b.putNew("large", kept())
		b.wantTake(1, "large", id)
		b.finishWith(1, id, 0, string(large))
	}
	first := b.do(storage.Op{Kind: storage.ListEnded, Tube: "large", MaxJobs: 100, Args: &storage.Args{}}).Result
	if n := len(first.Ended); n == 0 || n > 20 || len(b.listEnded("large", "", 100)) != 40 {
		b.Errorf("a page of large records has %d, all are %d", n, len(b.listEnded("large", "", 100)))
	}
}

// toldOfEnd returns whether the listener was told that a job has ended since the last call.
func (b *harness) toldOfEnd(id uint64) bool {
	b.listener.mu.Lock()
	defer b.listener.mu.Unlock()
	n := b.listener.ended[id]
	delete(b.listener.ended, id)
	return n > 0
}

// testEndWaits waits for ends.
func testEndWaits(b *harness) {
	told := b.toldOfEnd
	awaitTold := func(what string, id uint64) {
		b.Helper()
		if b.reopens {
			return // who has waited is gone
		}
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if told(id) {
				return
			}
			b.advance(20 * time.Millisecond) // a store can look again from time to time, by its own clock
		}
		b.Errorf("%s: nobody was told of job %d", what, id)
	}
	wait := func(id uint64, want tube.State) {
		b.Helper()
		if a := b.ended(id, true); a.NotFound || a.Result != nil || a.State != want {
			b.Errorf("a wait for job %d was answered %+v, want that it is %v", id, a, want)
		}
	}
	id := b.putNew("t", kept())
	wait(id, tube.Ready)
	b.wantTake(1, "t", id)
	wait(id, tube.Reserved)
	if told(id) {
		b.Error("somebody was told of a job that goes on")
	}
	b.finishWith(1, id, 0, "r")
	awaitTold("finished", id)
	b.wantEnded("finished", id, tube.Done)

	buried := b.putNew("t", kept())
	wait(buried, tube.Ready)
	b.fail(tube.Bury, buried, "broken")
	awaitTold("buried", buried)
	if r := b.wantEnded("buried", buried, tube.StillParked); r.Reason != "broken" {
		b.Errorf("the wait for a buried job was answered %+v", r)
	}
	b.kick("t", 1)
	wait(buried, tube.Ready)
	b.flush("t", tube.Ready)
	awaitTold("flushed", buried)

	b.setPolicy("p", &tube.Policy{Rules: tube.Rules{Keep: tube.LifetimeOf(time.Minute)}})
	plain := b.put("p", 1)
	wait(plain, tube.Ready)
	b.setPolicy("p", nil)
	awaitTold("no longer kept", plain)
	if a := b.ended(plain, true); a.Result == nil || !a.Result.NotKept {
		b.Errorf("a wait for a job whose policy has no keep any more was answered %+v", a)
	}
	b.must(tube.Delete, 1, plain)
	if a := b.ended(plain, true); !a.NotFound {
		b.Errorf("a job that left no record was answered %+v", a)
	}
}

// testEndedBytes lets the records of a tube exceed their bound.
func testEndedBytes(b *harness) {
	b.setPolicy("t", &tube.Policy{KeepBytes: 2000, HasKeepBytes: true, Rules: kept().Rules})
	var ids []uint64
	for range 30 {
		id := b.put("t", 1)
		b.wantTake(1, "t", id)
		b.finishWith(1, id, 0, "0123456789")
		ids = append(ids, id)
	}
	var all []*tube.Ended
	size := uint64(math.MaxUint64)
	for limit := time.Now().Add(20 * time.Second); size > 2000 && time.Now().Before(limit); time.Sleep(5 * time.Millisecond) { // an engine can write its tables beside
		b.advance(time.Second / 2) // far from the end of keep in all rounds together
		all, size = b.listEnded("t", "", 10), 0
		for _, r := range all {
			size += uint64(r.Bytes())
		}
	}
	for i, r := range all {
		if want := ids[len(ids)-1-i]; r.ID != want {
			b.Errorf("record %d is that of job %d, want %d", i, r.ID, want)
		}
	}
	if len(all) == 0 || size > 2000 {
		b.Errorf("%d records with %d bytes are left, with a bound of 2000", len(all), size)
	}
}

// testEndedSurvive restarts the store.
func testEndedSurvive(b *harness) {
	tags := kept()
	tags.Key, tags.Batch, tags.Group, tags.Meta = "key", "b", "g", []tube.Meta{{Name: "n", Value: "v"}}
	id := b.putNew("t", tags)
	b.wantTake(1, "t", id)
	b.finishWith(1, id, 0, "result")
	before := b.wantEnded("before a restart", id, tube.Done)
	waiting := b.putNew("t", kept())
	b.restart()
	if after := b.wantEnded("after a restart", id, tube.Done); fmt.Sprintf("%+v", after) != fmt.Sprintf("%+v", before) {
		b.Errorf("after a restart the record is %+v, before %+v", after, before)
	}
	b.wantEndedList("after a restart", "t", "", 5, id)
	b.wantEndedList("of the batch, after a restart", "", "b", 5, id)
	if a := b.ended(waiting, true); a.State != tube.Ready {
		b.Errorf("after a restart a wait is answered %+v", a)
	}
	b.must(tube.Delete, 1, waiting)
	b.wantEndedList("of before and after", "t", "", 5, waiting, id)
}
