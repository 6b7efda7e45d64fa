package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/fsck"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// endedTest is a store whose jobs leave records.
type endedTest struct {
	*testing.T
	*Store
}

func newEndedTest(t *testing.T, o Options) *endedTest { return newListeningTest(t, o, nopListener{}) }

func newListeningTest(t *testing.T, o Options, l storage.Listener) *endedTest {
	if o.URL == "" {
		o.URL = redistest.Start(t).URL()
	}
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	s := &endedTest{t, openListening(t, o, l)}
	t.Cleanup(func() {
		if t.Failed() || o.skew != nil {
			return
		}
		report := fsck.Report{Found: func(part int, what string) { t.Errorf("partition %d: %s", part, what) }}
		if _, err := fsck.Check(context.Background(), fsck.Options{URL: o.URL, Namespace: o.Namespace}, false, report); err != nil {
			t.Error(err)
		}
	})
	return s
}

// keepFor is tags of a job whose record is kept.
func keepFor(d time.Duration, more tube.Tags) *storage.Args {
	more.Keep = tube.LifetimeOf(d)
	return &storage.Args{Tags: &more}
}

func (t *endedTest) keep(name string, p tube.Policy) {
	t.Helper()
	t.ok(storage.Op{Kind: storage.SetPolicy, Tube: name, Args: &storage.Args{Policy: &p}})
}

func (t *endedTest) ok(op storage.Op) storage.Answer {
	t.Helper()
	a := do(t.Store, op)
	if a.Err != nil || a.NotFound || a.Result != nil && a.Result.NotKept {
		t.Fatalf("%v %v: %+v", op.Kind, op.Move, a)
	}
	return a
}

// put puts a job whose record is kept for an hour.
func (t *endedTest) put(name string, tags tube.Tags) uint64 {
	t.Helper()
	return t.ok(storage.Op{Kind: storage.Put, Tube: name, TTR: 600, Body: []byte("body"), Args: keepFor(time.Hour, tags)}).ID
}

func (t *endedTest) take(name string) uint64 {
	t.Helper()
	return t.ok(takeOf(1, name)).ID
}

func (t *endedTest) wait(id uint64) storage.Answer {
	return do(t.Store, storage.Op{Kind: storage.WaitEnded, ID: id, Wait: true})
}

// record returns the record of a job that has ended.
func (t *endedTest) record(id uint64) *tube.Ended {
	t.Helper()
	a := t.wait(id)
	if a.Err != nil || a.Result == nil || len(a.Result.Ended) != 1 {
		t.Fatalf("job %d: %+v", id, a)
	}
	return a.Result.Ended[0]
}

// list returns all records of a tube, or of a batch, read in pages, the newest first.
func (t *endedTest) list(name, batch string, page uint32) (all []*tube.Ended) {
	t.Helper()
	for cursor := ""; ; {
		a := t.ok(storage.Op{Kind: storage.ListEnded, Tube: name, MaxJobs: page, Args: &storage.Args{Name: batch, Cursor: cursor}})
		if len(a.Result.Ended) > int(page) {
			t.Errorf("a page of %d", len(a.Result.Ended))
		}
		all, cursor = append(all, a.Result.Ended...), a.Result.Cursor
		if cursor == "" {
			break
		}
	}
	for i := 1; i < len(all); i++ {
		if all[i].Seq >= all[i-1].Seq {
			t.Errorf("%d comes behind %d", all[i].Seq, all[i-1].Seq)
		}
	}
	return all
}

// figures returns how many records there are, and their bytes.
func (t *endedTest) figures() (records, bytes uint64) {
	t.Helper()
	s := t.ok(storage.Op{Kind: storage.Stats}).Stats
	return s.Ended, s.EndedBytes
}

// checkBytes compares the figures with the records of tubes.
func (t *endedTest) checkBytes(tubes ...string) {
	t.Helper()
	var records, bytes uint64
	for _, name := range tubes {
		for _, e := range t.list(name, "", 100) {
			records, bytes = records+1, bytes+uint64(e.Bytes())
		}
	}
	if r, b := t.figures(); r != records || b != bytes {
		t.Errorf("%d records with %d bytes, want %d with %d", r, b, records, bytes)
	}
}

// endedWays are all ways in which a job can end, with how. Each gets a job that is ready, and ends it.
var endedWays = map[string]struct {
	how tube.How
	end func(t *endedTest, id uint64)
}{
	"delete held": {tube.Done, func(t *endedTest, id uint64) {
		t.take("t")
		t.ok(move(tube.Delete, 1, id))
	}},
	"finish": {tube.Done, func(t *endedTest, id uint64) {
		t.take("t")
		t.ok(storage.Op{Kind: storage.Move, Move: tube.Finish, Holder: 1, ID: id, Args: &storage.Args{Data: []byte("result"), By: "me"}})
	}},
	"delete leased": {tube.Done, func(t *endedTest, id uint64) {
		a := t.ok(takeOf(tube.LeaseHolder, "t"))
		op := move(tube.Delete, tube.LeaseHolder, id)
		op.Args = &storage.Args{Lease: a.Result.Lease, By: "me"}
		t.ok(op)
	}},
	"finish leased": {tube.Done, func(t *endedTest, id uint64) {
		a := t.ok(takeOf(tube.LeaseHolder, "t"))
		op := move(tube.Finish, tube.LeaseHolder, id)
		op.Args = &storage.Args{Lease: a.Result.Lease, By: "me", Data: []byte("result")}
		t.ok(op)
	}},
	"delete ready": {tube.Deleted, func(t *endedTest, id uint64) { t.ok(move(tube.Delete, 1, id)) }},
	"flush":        {tube.Deleted, func(t *endedTest, _ uint64) { t.ok(storage.Op{Kind: storage.Flush, Tube: "t"}) }},
	"flush reserved": {tube.Deleted, func(t *endedTest, _ uint64) {
		t.take("t")
		t.ok(storage.Op{Kind: storage.Flush, Tube: "t", State: tube.Reserved})
	}},
	"move-jobs": {tube.Moved, func(t *endedTest, _ uint64) {
		t.ok(storage.Op{Kind: storage.MoveJobs, Tube: "t", State: tube.Ready, MaxJobs: 9, Args: &storage.Args{To: "other"}})
	}},
	"move-job": {tube.Moved, func(t *endedTest, id uint64) {
		t.ok(storage.Op{Kind: storage.MoveJob, ID: id, Args: &storage.Args{To: "other"}})
		t.settle()
	}},
}

// settle waits until jobs on their way to other partitions have arrived.
func (t *endedTest) settle() {
	for range 40 {
		t.Tick()
		time.Sleep(5 * time.Millisecond)
	}
}

// TestEndedWays: each way in which a job ends leaves the right record, by its own keep, by the policy of its tube and by that of a prefix; and none if
// there is no keep. So do large jobs, jobs with groups, and jobs in several partitions.
func TestEndedWays(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := 0
	for name, way := range endedWays {
		for _, by := range []string{"own", "policy", "prefix", "none"} {
			for _, kind := range []string{"plain", "tags", "group", "large"} {
				if n++; !inThisHalf(n / 2) {
					continue
				}
				o := Options{URL: server.URL(), Namespace: fmt.Sprint("ways", n), Partitions: n%2*2 + 1, leaseSetFrom: n % 3}
				t.Run(fmt.Sprint(name, " by ", by, " ", kind, " ", n), func(t *testing.T) {
					newEndedTest(t, o).checkWay(way.how, way.end, by, kind)
				})
			}
		}
	}
}

func (t *endedTest) checkWay(how tube.How, end func(t *endedTest, id uint64), by, kind string) {
	tags := tube.Tags{}
	switch kind {
	case "tags":
		tags = tube.Tags{Key: "key", Batch: "b", Group: "g", Meta: []tube.Meta{{Name: "n", Value: "value"}}}
	case "group":
		tags.Group = "g"
	}
	put := storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Body: []byte("x")}
	if kind == "large" {
		put.Body = make([]byte, 3*schema.LargeFrom)
	}
	switch by {
	case "own":
		tags.Keep = tube.LifetimeOf(time.Hour)
	case "policy", "prefix":
		name := map[string]string{"policy": "t", "prefix": "*"}[by]
		t.keep(name, tube.Policy{Rules: tube.Rules{Keep: tube.LifetimeOf(time.Hour)}})
	}
	if kind != "plain" && kind != "large" || by == "own" {
		put.Args = &storage.Args{Tags: &tags}
	}
	id := t.ok(put).ID
	if by == "none" {
		if strings.Contains(t.Name(), "finish") {
			return // see TestFinishNotKept
		}
		end(t, id)
		if a := t.wait(id); !a.NotFound {
			t.Errorf("%+v", a)
		}
		return
	}
	end(t, id)
	e := t.record(id)
	if e.ID != id || e.Tube != "t" || e.How != how || e.Key != tags.Key || e.Group != tags.Group || e.Batch != tags.Batch || len(e.Meta) != len(tags.Meta) {
		t.Errorf("%+v", e)
	}
	if e.Until != e.At.Plus(time.Hour) || e.Put > e.At || e.At > e.Put.Plus(time.Minute) {
		t.Errorf("put %v, ended %v, kept until %v", e.Put, e.At, e.Until)
	}
	if how == tube.Moved && (e.ToTube != "other" || do(t.Store, storage.Op{Kind: storage.Peek, ID: e.ToID}).NotFound) {
		t.Errorf("it is job %d of %s", e.ToID, e.ToTube)
	}
	reserved := strings.Contains(t.Name(), "held") || strings.Contains(t.Name(), "finish") || strings.Contains(t.Name(), "lease") || strings.Contains(t.Name(), "reserved")
	if want := map[bool]uint32{true: 1}[reserved]; e.Deliveries != want || e.Failures != 0 {
		t.Errorf("%d deliveries, want %d", e.Deliveries, want)
	}
	if how == tube.Done && (e.Started < e.Put || e.Started > e.At) {
		t.Errorf("put %d, started %d, ended %d", e.Put, e.Started, e.At)
	}
	if finished := strings.Contains(t.Name(), "finish"); finished != (string(e.Result) == "result") || finished && e.Holder != "me" {
		t.Errorf("%q by %q", e.Result, e.Holder)
	}
	tubes := []string{"t"}
	t.checkBytes(tubes...)
	if tags.Batch != "" && len(t.list("", tags.Batch, 1)) != 1 {
		t.Errorf("the batch has %d", len(t.list("", tags.Batch, 1)))
	}
}

// TestFinishNotKept: finish is refused without keep, and for others than the holder. Nothing happens then.
func TestFinishNotKept(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"", "g"} {
		s := newEndedTest(t, Options{})
		put := storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Args: &storage.Args{Tags: &tube.Tags{Group: group}}}
		id, leased := s.ok(put).ID, s.ok(put).ID
		s.take("t")
		lease := s.ok(takeOf(tube.LeaseHolder, "t")).Result.Lease
		op := storage.Op{Kind: storage.Move, Move: tube.Finish, Holder: 1, ID: id, Args: &storage.Args{Data: []byte("x")}}
		if a := do(s.Store, op); a.Err != nil || a.NotFound || a.Result == nil || !a.Result.NotKept {
			t.Errorf("%+v", a)
		}
		op.Holder = 2
		if a := do(s.Store, op); !a.NotFound {
			t.Errorf("of another holder: %+v", a)
		}
		op.Holder, op.ID, op.Args = tube.LeaseHolder, leased, &storage.Args{Lease: lease}
		if a := do(s.Store, op); a.Err != nil || a.NotFound || a.Result == nil || !a.Result.NotKept {
			t.Errorf("leased: %+v", a)
		}
		op.Args = &storage.Args{Lease: lease + 1}
		if a := do(s.Store, op); !a.NotFound {
			t.Errorf("another lease: %+v", a)
		}
		if a := s.wait(id); a.Result == nil || !a.Result.NotKept {
			t.Errorf("%+v", a)
		}
		if n := figures(t, s.Store).Reserved; n != 2 {
			t.Errorf("%d are reserved", n)
		}
		s.ok(move(tube.Delete, 1, id))
	}
}

// TestFinishWithoutMemory: a long result is refused by a Redis without memory, also behind what needs none, and the job stays reserved. All else ends
// its job.
func TestFinishWithoutMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newEndedTest(t, Options{URL: server.URL()})
	s.keep("t", tube.Policy{Rules: keepAnHour})
	for range 4 {
		s.ok(storage.Op{Kind: storage.Put, Tube: "t", TTR: 600})
	}
	for range 3 {
		s.take("t")
	}
	lease := s.ok(takeOf(tube.LeaseHolder, "t")).Result.Lease
	finish := func(h tube.Holder, id uint64, size int) storage.Op {
		args := &storage.Args{Data: make([]byte, size)}
		if h == tube.LeaseHolder {
			args.Lease = lease
		}
		return storage.Op{Kind: storage.Move, Move: tube.Finish, Holder: h, ID: id, Args: args}
	}
	server.Client(t).ConfigSet(t.Context(), "maxmemory", "1")
	ops := []storage.Op{move(tube.Delete, 1, 1), finish(1, 2, tube.MaxResult), finish(1, 3, 5), finish(tube.LeaseHolder, 4, tube.MaxResult)}
	storage.DoWait(s, ops)
	for i, refused := range []bool{false, true, false, true} {
		if a := ops[i].Answer; errors.Is(a.Err, storage.ErrNoSpace) != refused || !refused && (a.Err != nil || a.NotFound) {
			t.Errorf("operation %d: %+v", i, a)
		}
	}
	if n := figures(t, s.Store).Reserved; n != 2 || s.record(1).How != tube.Done || len(s.record(3).Result) != 5 {
		t.Errorf("%d are reserved", n)
	}
	server.Client(t).ConfigSet(t.Context(), "maxmemory", "0")
	s.ok(finish(1, 2, tube.MaxResult))
	s.ok(finish(tube.LeaseHolder, 4, tube.MaxResult))
	s.checkBytes("t")
}

// TestEndedOtherwise: records of jobs that end without a command about them alone.
func TestEndedOtherwise(t *testing.T) {
	t.Parallel()
	s := newEndedTest(t, Options{})
	want := func(what string, id uint64, how tube.How, check func(e *tube.Ended) bool) {
		t.Helper()
		if e := s.record(id); e.How != how || check != nil && !check(e) {
			t.Errorf("%s: %+v", what, e)
		}
	}
	id := s.put("t", tube.Tags{Key: "k"})
	s.ok(storage.Op{Kind: storage.DeleteKey, Tube: "t", Args: &storage.Args{Key: "k"}})
	want("delete-key", id, tube.Deleted, func(e *tube.Ended) bool { return e.Key == "k" })

	id = s.put("t", tube.Tags{Key: "k"})
	s.put("t", tube.Tags{Key: "k", OnDuplicate: tube.Replace})
	want("replace", id, tube.Deleted, nil)
	s.ok(storage.Op{Kind: storage.Flush, Tube: "t"})

	id = s.put("t", tube.Tags{Batch: "b"})
	s.ok(storage.Op{Kind: storage.CancelBatch, Args: &storage.Args{Name: "b"}})
	want("cancel", id, tube.Deleted, func(e *tube.Ended) bool { return e.Batch == "b" })

	id = s.put("t", tube.Tags{})
	s.ok(move(tube.Withdraw, 1, id))
	if a := s.wait(id); !a.NotFound {
		t.Errorf("withdrawn: %+v", a)
	}

	id = s.put("t", tube.Tags{Expire: tube.LifetimeOf(time.Millisecond)})
	s.settle()
	want("expired", id, tube.Expired, func(e *tube.Ended) bool { return e.Deliveries == 0 })

	id = s.put("t", tube.Tags{Rules: tube.Rules{Max: 1, Dead: "grave"}, Meta: []tube.Meta{{Name: "a", Value: "b"}}})
	s.take("t")
	release := move(tube.Release, 1, id)
	release.Args = &storage.Args{Reason: "broken"}
	s.ok(release)
	var dead uint64
	want("dead", id, tube.Dead, func(e *tube.Ended) bool {
		dead = e.ToID
		return e.ToTube == "grave" && e.Deliveries == 1 && e.Failures == 1 && e.Reason == "broken" && len(e.Meta) == 1
	})
	if a := s.wait(dead); a.Result == nil || !a.Result.NotKept {
		t.Errorf("a dead letter has only the rules of its tube: %+v", a)
	}
	s.keep("grave", tube.Policy{Rules: tube.Rules{Keep: tube.LifetimeOf(time.Minute)}})
	s.ok(storage.Op{Kind: storage.Replay, ID: dead})
	want("replay", dead, tube.Moved, func(e *tube.Ended) bool { return e.ToTube == "t" && e.Until == e.At.Plus(time.Minute) })
	s.checkBytes("t", "grave")
}

// TestParkedIsNoEnd: a wait for a buried job says so, and why.
func TestParkedIsNoEnd(t *testing.T) {
	t.Parallel()
	s := newEndedTest(t, Options{})
	for reason, tags := range map[string]tube.Tags{"": {}, "why": {}, "deliveries": {Rules: tube.Rules{Max: 1}}} {
		id := s.put("t", tags)
		if a := s.wait(id); a.State != tube.Ready || a.Result != nil {
			t.Errorf("%+v", a)
		}
		s.take("t")
		if a := s.wait(id); a.State != tube.Reserved {
			t.Errorf("%+v", a)
		}
		how := move(tube.Bury, 1, id)
		if reason == "deliveries" {
			how.Move = tube.Release
		} else if reason != "" {
			how.Args = &storage.Args{Reason: reason}
		}
		s.ok(how)
		if e := s.record(id); e.How != tube.StillParked || e.Reason != reason || e.ID != id || e.Tube != "t" {
			t.Errorf("%q: %+v", reason, e)
		}
		s.ok(move(tube.KickJob, 1, id))
		if a := s.wait(id); a.State != tube.Ready {
			t.Errorf("%+v", a)
		}
		s.ok(move(tube.Delete, 1, id))
		if e := s.record(id); e.How != tube.Deleted || reason == "why" && e.Reason != reason {
			t.Errorf("%+v", e)
		}
	}
}

// finishMany puts, takes and finishes n jobs of a tube, with results of that size.
func (t *endedTest) finishMany(name string, n, size int) (ids []uint64) {
	t.Helper()
	for len(ids) < n {
		ops := make([]storage.Op, min(n-len(ids), 200))
		run := func(op func(k int) storage.Op) {
			for k := range ops {
				ops[k] = op(k)
			}
			storage.DoWait(t.Store, ops)
			for k := range ops {
				if a := ops[k].Answer; a.Err != nil || a.NotFound {
					t.Fatalf("%+v", a)
				}
			}
		}
		run(func(int) storage.Op { return storage.Op{Kind: storage.Put, Tube: name, TTR: 600} })
		run(func(int) storage.Op { return takeOf(1, name) })
		taken := make([]uint64, len(ops))
		for k := range ops {
			taken[k] = ops[k].Answer.ID
		}
		ids = append(ids, taken...)
		run(func(k int) storage.Op {
			if size == 0 {
				return move(tube.Delete, 1, taken[k])
			}
			return storage.Op{Kind: storage.Move, Move: tube.Finish, Holder: 1, ID: taken[k], Args: &storage.Args{Data: make([]byte, size)}}
		})
	}
	return ids
}

// keyCount returns how many keys a partition has that begin so.
func (t *endedTest) keyCount(server *redistest.Server, begin string) int {
	return len(server.Client(t).Keys(t.Context(), "*}:"+begin+"*").Val())
}

var keepAnHour = tube.Rules{Keep: tube.LifetimeOf(time.Hour)}

// TestEndedBounds: the oldest records of a tube go, and those of all tubes, also if a bound is lowered, to 0 in the end.
func TestEndedBounds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newEndedTest(t, Options{URL: server.URL(), HistoryBytes: 100_000})
	s.keep("*", tube.Policy{Rules: keepAnHour})
	s.keep("small", tube.Policy{KeepBytes: 1400, HasKeepBytes: true})
	ids := s.finishMany("small", 25, 0)
	kept := s.list("small", "", 100)
	if len(kept) != 10 || kept[0].ID != ids[24] || kept[9].ID != ids[15] { // each has 128+5 bytes
		t.Errorf("%d of a tube are kept", len(kept))
	}
	if a := s.wait(ids[0]); !a.NotFound {
		t.Errorf("dropped: %+v", a)
	}
	s.finishMany("a", 3, tube.MaxResult)
	if _, bytes := s.figures(); bytes > 100_000 || len(s.list("a", "", 10)) != 1 || len(s.list("small", "", 10)) != 0 {
		t.Errorf("%d bytes, %d and %d", bytes, len(s.list("a", "", 10)), len(s.list("small", "", 10)))
	}
	s.finishMany("b", 800, 0)
	if _, bytes := s.figures(); bytes > 100_000 || bytes < 99_000 || len(s.list("a", "", 10)) != 0 {
		t.Errorf("%d bytes", bytes)
	}
	s.checkBytes("a", "b", "small")
	s.keep("b", tube.Policy{KeepBytes: 13_000, HasKeepBytes: true})
	s.settle()
	if n := len(s.list("b", "", 1000)); n != 13_000/129 {
		t.Errorf("%d after a lower bound", n)
	}
	s.keep("b", tube.Policy{HasKeepBytes: true})
	s.settle()
	if records, bytes := s.figures(); records+bytes != 0 {
		t.Errorf("%d records with %d bytes", records, bytes)
	}
	s.finishMany("c", 50, 10)
	none := newEndedTest(t, Options{URL: server.URL(), HistoryBytes: -1})
	none.settle()
	if records, bytes := none.figures(); records+bytes != 0 || none.keyCount(server, "ended") > 0 {
		t.Errorf("%d records with %d bytes, %d keys", records, bytes, none.keyCount(server, "ended"))
	}
}

// TestEndedUntil: records go when their time is over, and are not seen any more then.
func TestEndedUntil(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var ahead time.Duration
	s := newEndedTest(t, Options{URL: server.URL(), skew: func() time.Duration { return ahead }})
	var ids []uint64
	for k := range 20 {
		args := keepFor(time.Duration(1+k%2)*time.Minute, tube.Tags{Batch: "b"})
		ids = append(ids, s.ok(storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Args: args}).ID)
		s.ok(move(tube.Delete, 1, ids[k]))
	}
	ahead += time.Minute + time.Second
	if a := s.wait(ids[0]); !a.NotFound {
		t.Errorf("%+v", a)
	}
	if n := len(s.list("t", "", 3)) + len(s.list("", "b", 3)); n != 20 {
		t.Errorf("%d are listed", n)
	}
	ahead += 6 * time.Second // until then, records could have been appended
	s.settle()
	s.checkBytes("t")
	if n := s.keyCount(server, "ended:"); n != 10 {
		t.Errorf("%d are left", n)
	}
	ahead += time.Minute + 6*time.Second
	s.settle()
	if n := s.keyCount(server, "ended"); n > 0 {
		t.Errorf("%d keys are left: %v", n, server.Client(t).Keys(t.Context(), "*ended*").Val())
	}
}

// TestListEndedInParts: a page before which there are many records whose time is over is found in several calls.
func TestListEndedInParts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var ahead time.Duration
	s := newEndedTest(t, Options{URL: server.URL(), skew: func() time.Duration { return ahead }})
	args := keepFor(24*time.Hour, tube.Tags{Batch: "b"})
	first := s.ok(storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Args: args}).ID
	s.ok(move(tube.Delete, 1, first))
	const many = 4500 // records in chunks of their own, as they are not kept equally long
	for range many / 250 {
		ops := make([]storage.Op, 250)
		for k := range ops {
			ops[k] = storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Args: keepFor(time.Duration(1+k%2)*time.Minute, tube.Tags{Batch: "b"})}
		}
		storage.DoWait(s, ops)
		for k := range ops {
			ops[k] = move(tube.Delete, 1, ops[k].Answer.ID)
		}
		storage.DoWait(s, ops)
	}
	if n := len(s.list("t", "", 1000)); n != many+1 {
		t.Fatalf("%d are listed", n)
	}
	ahead = time.Hour
	most := mostCommands(t, server, func() {
		for _, batch := range []string{"", "b"} {
			if all := s.list("t", batch, 100); len(all) != 1 || all[0].ID != first {
				t.Errorf("batch %q: %d are listed", batch, len(all))
			}
		}
	})
	if most > 1500 {
		t.Errorf("a call makes %d commands", most)
	}
}

// wantRecords checks the records of a tube, by the ids of their jobs, the newest first.
func (t *endedTest) wantRecords(name string, ids []uint64) {
	t.Helper()
	for _, page := range []uint32{1, 7, 150, 1000} {
		var have []uint64
		for _, e := range t.list(name, "", page) {
			have = append(have, e.ID)
		}
		if !slices.Equal(have, ids) {
			t.Errorf("%s in pages of %d: %v, want %v", name, page, have, ids)
		}
	}
	for k, id := range ids {
		e := t.record(id)
		if e.Tube != name || e.ID != id || k > 0 && e.At > t.record(ids[k-1]).At {
			t.Errorf("job %d: %+v", id, e)
		}
	}
}

// TestEndedAlone: records of jobs that end alone, in any order, are few chunks, and are found and listed like others, until they are dropped. The tubes of
// one batch alternate, so their records are in chunks of their own.
func TestEndedAlone(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		server := redistest.Start(t)
		var ahead time.Duration
		var ended []time.Time // when the rounds ended
		s := newEndedTest(t, Options{URL: server.URL(), Partitions: partitions, skew: func() time.Duration { return ahead }})
		want := make(map[string][]uint64) // by tube, the newest first
		end := func(name string, ids []uint64) {
			rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			for _, id := range ids {
				s.ok(move(tube.Delete, 1, id))
				want[name] = append([]uint64{id}, want[name]...)
			}
		}
		for range 5 {
			var a, b []uint64
			for range 40 {
				a, b = append(a, s.put("a", tube.Tags{})), append(b, s.put("b", tube.Tags{}))
			}
			end("a", a[:20])
			end("b", b)
			end("a", a[20:])
			s.finishMany("c", 3, 10) // as a rule in one call
			ended = append(ended, time.Now().Add(ahead))
			ahead += 10 * time.Second
		}
		if n := s.keyCount(server, "ended:"); n > 15 {
			t.Errorf("%d chunks", n)
		}
		for name, ids := range want {
			s.wantRecords(name, ids)
		}
		s.checkBytes("a", "b", "c")
		_, wrong := checkAt(t, server.URL(), false)
		if len(wrong) > 0 {
			t.Errorf("%q", wrong)
		}
		ahead = time.Until(ended[2].Add(time.Hour + 5*time.Second)) // records of the last two rounds have time left
		if a := s.wait(want["a"][199]); !a.NotFound || s.record(want["a"][0]) == nil {
			t.Errorf("%+v", a)
		}
		if n := len(s.list("a", "", 30)); n != 80 {
			t.Errorf("%d have time left", n)
		}
		ahead += 2 * time.Minute
		s.settle()
		if n := s.keyCount(server, "ended"); n > 0 {
			t.Errorf("%d keys are left: %v", n, server.Client(t).Keys(t.Context(), "*ended*").Val())
		}
	}
}

// TestEndedOfBatch: the members of a batch in three partitions are listed in the order in which they have ended.
func TestEndedOfBatch(t *testing.T) {
	t.Parallel()
	s := newEndedTest(t, Options{Partitions: 3})
	want := make(map[uint64]bool)
	for k := range 60 {
		id := s.put(fmt.Sprint("t", k%7), tube.Tags{Batch: "b"})
		want[id] = true
	}
	for id := range want {
		s.ok(move(tube.Delete, 1, id))
	}
	for _, page := range []uint32{1, 7, 1000} {
		found := make(map[uint64]bool)
		for _, e := range s.list("", "b", page) {
			found[e.ID] = true
		}
		if len(found) != len(want) {
			t.Errorf("%d in pages of %d", len(found), page)
		}
	}
	if records, _ := s.figures(); records != 60 {
		t.Errorf("%d records", records)
	}
}

// TestEndedPage: a page has 1 MiB.
func TestEndedPage(t *testing.T) {
	t.Parallel()
	s := newEndedTest(t, Options{})
	s.keep("t", tube.Policy{Rules: keepAnHour})
	s.finishMany("t", 40, tube.MaxResult)
	a := s.ok(storage.Op{Kind: storage.ListEnded, Tube: "t", MaxJobs: 1000})
	if n := len(a.Result.Ended); n != 15 || a.Result.Cursor == "" || len(s.list("t", "", 1000)) != 40 {
		t.Errorf("a page of %d, and %d in all", n, len(s.list("t", "", 1000)))
	}
}
