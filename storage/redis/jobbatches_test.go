package redis

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// putTags returns a put with tags.
func putTags(name string, tags tube.Tags) storage.Op {
	return storage.Op{Kind: storage.Put, Tube: name, TTR: 100, Pri: 2000, Body: []byte("body"), Args: &storage.Args{Tags: &tags}}
}

func batchOp(kind storage.Kind, name string) storage.Op {
	return storage.Op{Kind: kind, Records: tube.JobBatches, Args: &storage.Args{Name: name}}
}

// batchSum returns the sum of the records of a batch in all partitions.
func batchSum(t *testing.T, s *Store, name string) (sum tube.JobBatch) {
	t.Helper()
	a := do(s, batchOp(storage.GetRecord, name))
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	if a.NotFound {
		return sum
	}
	for _, b := range a.Result.Batches() {
		sum.Pending += b.Pending
		sum.Parked += b.Parked
		sum.Done += b.Done
		sum.Gone += b.Gone
		sum.Stamp += b.Stamp
		sum.AfterHeld += b.AfterHeld
		sum.AfterFailed += b.AfterFailed
		sum.After = append(sum.After, b.After...)
	}
	return sum
}

// membersOf returns the ids of the members of a batch.
func membersOf(t *testing.T, s *Store, name string) (ids []uint64) {
	t.Helper()
	cursor := ""
	for {
		op := storage.Op{Kind: storage.ListMembers, MaxJobs: 3, Args: &storage.Args{Name: name, Cursor: cursor}}
		a := do(s, op)
		if a.Err != nil || len(a.Result.Jobs) > 3 {
			t.Fatalf("%+v", a)
		}
		for _, j := range a.Result.Jobs {
			if ids = append(ids, j.ID); j.Metadata == nil || j.Metadata.Batch != name {
				t.Errorf("member %d: %+v", j.ID, j.Metadata)
			}
		}
		if cursor = a.Result.Cursor; cursor == "" {
			return ids
		}
	}
}

// TestExitsOfMembers: each way in which a member leaves its state is counted once.
func TestExitsOfMembers(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 16} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			server := redistest.Start(t)
			s := openWith(t, Options{URL: server.URL(), Partitions: partitions, Timeout: patient})
			from, to := tubesInTwoPartitions(16)
			for name, c := range exits {
				t.Run(name, func(t *testing.T) { testExit(t, s, name, from, to, c) })
				flushOf(s, from, tube.Gone)
				flushOf(s, from, tube.Reserved)
			}
			wantNoFaults(t, s.parts[0].options)
		})
	}
}

// exit is what is done with a member, and what is counted after that.
type exit struct {
	tags tube.Tags
	do   func(s *Store, id uint64, from, to string)

	pending, parked, done, gone uint64

	stamp uint64 // by how much it grows, after the put
}

func taken(s *Store, id uint64) { do(s, move(tube.ReserveJob, 1, id)) }

// sent waits until no dead letter is pending.
func sent(s *Store, from string) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		s.TickAll()
		if a := do(s, storage.Op{Kind: storage.TubeStats, Tube: from}); a.NotFound || a.TubeStats.Buried == 0 {
			return
		}
	}
}

var exits = map[string]exit{
	"nothing": {pending: 1, do: func(*Store, uint64, string, string) {}},
	"delete": {done: 1, do: func(s *Store, id uint64, _, _ string) {
		taken(s, id)
		do(s, move(tube.Delete, 1, id))
	}},
	"delete ready": {done: 1, do: func(s *Store, id uint64, _, _ string) { do(s, move(tube.Delete, 1, id)) }},
	"release": {pending: 1, do: func(s *Store, id uint64, _, _ string) {
		taken(s, id)
		do(s, move(tube.Release, 1, id))
	}},
	"bury": {parked: 1, do: func(s *Store, id uint64, _, _ string) {
		taken(s, id)
		do(s, move(tube.Bury, 1, id))
	}},
	"bury and delete": {done: 1, do: func(s *Store, id uint64, _, _ string) {
		taken(s, id)
		do(s, move(tube.Bury, 1, id))
		do(s, move(tube.Delete, 1, id))
	}},
	"bury and kick": {pending: 1, stamp: 1, do: func(s *Store, id uint64, from, _ string) {
		taken(s, id)
		do(s, move(tube.Bury, 1, id))
		do(s, storage.Op{Kind: storage.Kick, Tube: from, MaxJobs: 1})
	}},
	"bury and reserve": {pending: 1, stamp: 1, do: func(s *Store, id uint64, _, _ string) {
		taken(s, id)
		do(s, move(tube.Bury, 1, id))
		taken(s, id)
	}},
	"delete-key": {tags: tube.Tags{Key: "key"}, gone: 1, do: func(s *Store, _ uint64, from, _ string) {
		do(s, storage.Op{Kind: storage.DeleteKey, Tube: from, Args: &storage.Args{Key: "key"}})
	}},
	"replaced": {tags: tube.Tags{Key: "key"}, gone: 1, do: func(s *Store, _ uint64, from, _ string) {
		do(s, putTags(from, tube.Tags{Key: "key", OnDuplicate: tube.Replace}))
	}},
	"replaced by a member": {tags: tube.Tags{Key: "key"}, pending: 1, stamp: 1, do: func(s *Store, _ uint64, from, _ string) {
		do(s, putTags(from, tube.Tags{Key: "key", OnDuplicate: tube.Replace, Batch: "replaced by a member"}))
	}},
	"expired": {tags: tube.Tags{Expire: tube.LifetimeOf(time.Millisecond)}, gone: 1, do: func(s *Store, _ uint64, from, _ string) {
		sleepFor(s, 5*time.Millisecond)
	}},
	"flush": {gone: 1, do: func(s *Store, _ uint64, from, _ string) {
		do(s, storage.Op{Kind: storage.Flush, Tube: from, State: tube.Ready})
	}},
	"flush reserved": {gone: 1, do: func(s *Store, id uint64, from, _ string) {
		taken(s, id)
		do(s, storage.Op{Kind: storage.Flush, Tube: from, State: tube.Reserved})
	}},
	"sent": {tags: tube.Tags{Rules: tube.Rules{Max: 1, Dead: "from0"}}, parked: 1, do: func(s *Store, id uint64, from, _ string) {
		taken(s, id)
		do(s, move(tube.Release, 1, id))
		sent(s, from)
	}},
	"sent and deleted": {tags: tube.Tags{Rules: tube.Rules{Max: 1, Dead: "from1"}}, done: 1, do: func(s *Store, id uint64, from, _ string) {
		taken(s, id)
		do(s, move(tube.Release, 1, id))
		sent(s, from)
		do(s, move(tube.Delete, 1, do(s, storage.Op{Kind: storage.PeekHead, Tube: "from1", State: tube.Ready}).ID))
	}},
	"sent and back": {tags: tube.Tags{Rules: tube.Rules{Max: 1, Dead: "from2"}}, pending: 1, stamp: 1, do: func(s *Store, id uint64, from, _ string) {
		taken(s, id)
		do(s, move(tube.Release, 1, id))
		sent(s, from)
		do(s, storage.Op{Kind: storage.Replay, ID: do(s, storage.Op{Kind: storage.PeekHead, Tube: "from2", State: tube.Ready}).ID})
		sent(s, "from2")
	}},
	"cancelled": {gone: 1, do: func(s *Store, _ uint64, _, _ string) { do(s, batchOp(storage.CancelBatch, "cancelled")) }},
	"cancelled reserved": {pending: 1, stamp: 1, do: func(s *Store, id uint64, _, _ string) {
		taken(s, id)
		do(s, batchOp(storage.CancelBatch, "cancelled reserved"))
	}},
	"moved": {pending: 1, do: func(s *Store, id uint64, from, to string) {
		do(s, storage.Op{Kind: storage.MoveJobs, Tube: from, State: tube.Ready, MaxJobs: 9, Args: &storage.Args{To: to}})
	}},
	"moved buried": {parked: 1, do: func(s *Store, id uint64, from, to string) {
		taken(s, id)
		do(s, move(tube.Bury, 1, id))
		do(s, storage.Op{Kind: storage.MoveJobs, Tube: from, State: tube.Buried, MaxJobs: 9, Args: &storage.Args{To: to}})
	}},
	"leased": {tags: tube.Tags{}, done: 1, do: func(s *Store, _ uint64, from, _ string) {
		a := do(s, storage.Op{Kind: storage.Take, Holder: tube.LeaseHolder, Tubes: []string{from}})
		do(s, deleteLeased(a.ID, a.Result.Lease))
	}},
}

// sleepFor ticks until a time is over.
func sleepFor(s *Store, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.TickAll()
	}
	s.TickAll()
}

func testExit(t *testing.T, s *Store, name, from, to string, c exit) {
	tags := c.tags
	tags.Batch = name
	a := do(s, putTags(from, tags))
	if a.Err != nil || a.ID == 0 || a.Outcome != tube.PutNew || a.State != tube.Ready {
		t.Fatalf("%+v", a)
	}
	before := batchSum(t, s, name)
	c.do(s, a.ID, from, to)
	sum := batchSum(t, s, name)
	if sum.Pending != c.pending || sum.Parked != c.parked || sum.Done != c.done || sum.Gone != c.gone {
		t.Errorf("%+v", sum)
	}
	if grew := sum.Stamp - before.Stamp; len(s.parts) == 1 && grew != c.stamp && c.gone+c.done == 0 {
		t.Errorf("the stamp has grown by %d", grew)
	}
	if n := uint64(len(membersOf(t, s, name))); n != c.pending+c.parked {
		t.Errorf("%d members are listed", n)
	}
}

// settle carries out a verdict in all partitions, and returns for how many jobs.
func settle(t *testing.T, s *Store, name string, v tube.Verdict, most uint32) (n int) {
	t.Helper()
	for _, b := range do(s, batchOp(storage.GetRecord, name)).Result.Batches() {
		op := batchOp(storage.SettleBatch, name)
		op.MaxJobs, op.Args.Settle = most, b.Settlement(v, tube.Never)
		a := do(s, op)
		if a.NotFound || a.Err != nil {
			t.Errorf("settling part %d: %+v", b.Part, a)
		}
		n += a.Count
	}
	return n
}

// dueOf returns the names of the batches that are due, and claims them.
func dueOf(t *testing.T, s *Store) (names []string) {
	t.Helper()
	a := do(s, storage.Op{Kind: storage.DueRecords, Records: tube.JobBatches, MaxJobs: 100})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	for _, b := range a.Result.Batches() {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestAfterJobs: after-jobs are held, parked, and run.
func TestAfterJobs(t *testing.T) {
	for _, partitions := range []int{1, 16} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			server := redistest.Start(t)
			s := openWith(t, Options{URL: server.URL(), Partitions: partitions, Timeout: patient})
			testAfterJobs(t, s)
			wantNoFaults(t, s.parts[0].options)
		})
	}
}

func testAfterJobs(t *testing.T, s *Store) {
	from, to := tubesInTwoPartitions(16)
	member := do(s, putTags(from, tube.Tags{Batch: "b"})).ID
	if due := dueOf(t, s); len(due) != 0 {
		t.Errorf("due: %q", due)
	}
	after := do(s, putTags(to, tube.Tags{After: "b"})).ID
	all := do(s, putTags(to, tube.Tags{After: "b", AfterAll: true, HasDelay: true, Delay: 3 * time.Second, Group: "g"})).ID
	want := func(what string, id uint64, state tube.State, held tube.Held, name string, parked tube.Parked) {
		t.Helper()
		wantAfterJob(t, s, what, id, state, held, name, parked)
	}
	want("at first", after, tube.Delayed, tube.HeldByBatch, "b", 0)
	want("at first", all, tube.Delayed, tube.HeldByBatch, "b", 0)
	for _, op := range []storage.Op{{Kind: storage.Kick, Tube: to, MaxJobs: 9}, {Kind: storage.Reschedule, ID: after}} {
		if a := do(s, op); a.Count != 0 || op.Kind == storage.Reschedule && !a.NotFound {
			t.Errorf("%+v", a)
		}
	}
	if sum := batchSum(t, s, "b"); sum.AfterHeld != 2 || len(sum.After) != 2 || sum.After[0].ID != after {
		t.Errorf("%+v", sum)
	}
	dueOf(t, s) // in several partitions the first after-job has made a record
	do(s, batchOp(storage.SealBatch, "b"))
	wantSealed(t, s, from, to)
	buryDue(t, s, member)
	if n := settle(t, s, "b", tube.BatchFailed, 100); n != 2 {
		t.Errorf("%d jobs were settled", n)
	}
	want("failed", after, tube.Buried, 0, "b", tube.ParkedBatchFailed)
	want("failed", all, tube.Delayed, 0, "", 0)
	if sum := batchSum(t, s, "b"); sum.AfterHeld != 0 || sum.AfterFailed != 1 || sum.Parked != 1 {
		t.Errorf("%+v", sum)
	}
	if a := moveJobsOf(s, to, tube.Buried, from, 9); a.Count != 1 {
		t.Errorf("%+v", a)
	}
	moved := do(s, storage.Op{Kind: storage.ListJobs, Tube: from, State: tube.Buried, MaxJobs: 9}).Result.Jobs[1].ID
	want("moved", moved, tube.Buried, 0, "b", tube.ParkedBatchFailed)
	do(s, move(tube.Delete, 1, member))
	if n := settle(t, s, "b", tube.BatchDone, 100); n != 1 {
		t.Errorf("%d jobs were settled", n)
	}
	want("done", moved, tube.Ready, 0, "", 0)
	if sum := batchSum(t, s, "b"); sum.AfterHeld+sum.AfterFailed+sum.Pending+sum.Parked != 0 || sum.Done != 1 {
		t.Errorf("%+v", sum)
	}
	forgetBatch(t, s)
}

// buryDue buries the last member of a batch, which is due then.
func buryDue(t *testing.T, s *Store, member uint64) {
	t.Helper()
	do(s, move(tube.ReserveJob, 1, member))
	do(s, move(tube.Bury, 1, member))
	if due := dueOf(t, s); len(due) != 1 {
		t.Errorf("due: %q", due)
	}
}

func wantAfterJob(t *testing.T, s *Store, what string, id uint64, state tube.State, held tube.Held, name string, parked tube.Parked) {
	t.Helper()
	j := do(s, storage.Op{Kind: storage.JobStats, ID: id}).Job
	if j.State != state || j.Held != held || j.Metadata.After != name || j.Metadata.Parked != parked || held != 0 && j.TimeLeft != 0 {
		t.Errorf("%s: job %d: %+v, %+v", what, id, *j, *j.Metadata)
	}
}

// wantSealed checks that the batch b gets no more members in these tubes, which are in two partitions.
func wantSealed(t *testing.T, s *Store, tubes ...string) {
	t.Helper()
	for _, to := range tubes {
		for _, key := range []string{"", "x"} {
			if a := do(s, putTags(to, tube.Tags{Batch: "b", Key: key})); a.Outcome != tube.PutSealed || a.ID != 0 || a.Err != nil {
				t.Errorf("in %s: %+v", to, a)
			}
		}
	}
}

// forgetBatch lets the batch b be forgotten in all partitions.
func forgetBatch(t *testing.T, s *Store) {
	t.Helper()
	for _, b := range do(s, batchOp(storage.GetRecord, "b")).Result.Batches() {
		op := batchOp(storage.SettleBatch, "b")
		op.Args.Settle = &tube.Settlement{Part: b.Part, Stamp: b.Stamp, Forget: true}
		if a := do(s, op); a.NotFound || a.Err != nil {
			t.Errorf("%+v", a)
		}
	}
	if a := do(s, batchOp(storage.GetRecord, "b")); !a.NotFound {
		t.Errorf("%+v", a)
	}
}

// TestCheckOfBatches: fsck finds what is wrong with batches, and repairs it.
func TestCheckOfBatches(t *testing.T) {
	redis := redistest.Start(t)
	ctx, client, p := t.Context(), redis.Client(t), "redstalk:{0}:"
	s := openAt(t, redis.URL(), patient)
	var ids []uint64
	for _, name := range []string{"a", "b", "c"} {
		for range 3 {
			ids = append(ids, do(s, putTags("t", tube.Tags{Batch: name})).ID)
		}
		ids = append(ids, do(s, putTags("t", tube.Tags{After: name})).ID)
	}
	do(s, move(tube.ReserveJob, 1, ids[1]))
	do(s, move(tube.Bury, 1, ids[1]))
	do(s, batchOp(storage.SealBatch, "d"))
	if jobs, wrong := checkAt(t, redis.URL(), false); jobs != len(ids) || len(wrong) > 0 {
		t.Fatalf("%d jobs, %q", jobs, wrong)
	}
	s.Close()
	key := func(n int) string { return p + digits(ids[n]) }
	client.HSet(ctx, p+"job-batches", "a", "1000 0 0 4 0 0 0 4 0 0 5000", "d", "nonsense")
	client.HDel(ctx, p+"job-batches", "b")
	client.RPop(ctx, p+"members:c")
	client.ZAdd(ctx, p+"delayed:t", goredis.Z{Score: 7, Member: key(3)})
	client.ZAdd(ctx, p+"after:a", goredis.Z{Score: 2, Member: key(3)}, goredis.Z{Score: 0, Member: key(0)})
	client.ZRem(ctx, p+"job-batch-names", "c")
	client.ZAdd(ctx, p+"job-batch-claims", goredis.Z{Score: 9, Member: "e"})
	client.RPush(ctx, p+"members:f", "1")
	wants := []string{
		"batch a: by its record 4 members are pending and 0 parked, and it has 2 and 1", "batch d: its record is broken",
		"job " + digits(ids[4]) + ": its batch b is not known", "job " + digits(ids[7]) + ": its batch b is not known",
		fmt.Sprintf("members:c lacks job %d", ids[10]), "job " + digits(ids[3]) + ": it waits for the batch a, and is due",
		"job " + digits(ids[3]) + ": the batch a does not know its state", "after:a has " + digits(ids[0]) + ": no such job waits for it",
		"batch c is not in job-batch-names", "job-batch-claims has e: there is no such batch", "members has f: there is no such batch",
	}
	_, wrong := checkAt(t, redis.URL(), false)
	text := strings.Join(wrong, "\n")
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("not found: %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	for n := 0; n < 2; n++ { // what a repair has made is checked by the next one
		checkAt(t, redis.URL(), true)
	}
	if _, left := checkAt(t, redis.URL(), false); len(left) > 0 {
		t.Errorf("still wrong after the repair: %q", left)
	}
	s = openAt(t, redis.URL(), patient)
	if due := dueOf(t, s); !slices.Contains(due, "a") || !slices.Contains(due, "b") {
		t.Errorf("due: %q", due)
	}
	for name, n := range map[string]uint64{"a": 2, "b": 3, "c": 3} {
		if sum := batchSum(t, s, name); sum.Pending != n || sum.AfterHeld != 1 || len(membersOf(t, s, name)) != 3 {
			t.Errorf("%s: %+v", name, sum)
		}
	}
}

// TestLatestDueBatch: of many batches that are due the one that has become so last does not wait for all others, and each is returned once.
func TestLatestDueBatch(t *testing.T) {
	server := redistest.Start(t)
	s := openWith(t, Options{URL: server.URL(), Timeout: patient})
	client := server.Client(t)
	for i := range 40 {
		do(s, batchOp(storage.SealBatch, fmt.Sprint("b", i)))
	}
	keys, err := client.Keys(t.Context(), "*job-batch-dues").Result()
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	for i := range 40 {
		client.ZAdd(t.Context(), keys[0], goredis.Z{Score: float64(i + 1), Member: fmt.Sprint("b", i)})
	}
	due := func() (names []string) {
		for _, b := range do(s, storage.Op{Kind: storage.DueRecords, Records: tube.JobBatches, MaxJobs: 8}).Result.Batches() {
			names = append(names, b.Name)
		}
		return names
	}
	if got, want := due(), []string{"b0", "b1", "b2", "b3", "b4", "b5", "b39", "b38"}; !slices.Equal(got, want) {
		t.Errorf("first %v, want %v", got, want)
	}
	seen := 8
	for names := due(); len(names) > 0; names = due() {
		seen += len(names)
	}
	if seen != 40 {
		t.Errorf("%d were returned", seen)
	}
}

// TestBatchesAfterClockBack: when the clock of Redis goes back, all records of batches are looked at again, some with each heartbeat.
func TestBatchesAfterClockBack(t *testing.T) {
	t.Parallel()
	const batches = 1200
	var step atomic.Int64
	server := redistest.Start(t)
	s := openWith(t, Options{URL: server.URL(), Timeout: patient, redisStep: func() time.Duration { return time.Duration(step.Load()) }})
	ops := make([]storage.Op, batches)
	for i := range ops {
		ops[i] = storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Args: &storage.Args{Tags: &tube.Tags{Batch: fmt.Sprint("b", i)}}}
	}
	storage.DoWait(s, ops)
	step.Store(int64(-7 * 24 * time.Hour))
	client := server.Client(t)
	due := func() int64 {
		p := s.parts[0]
		p.do(func(*call) { p.heartbeat.last = time.Time{} })
		p.do(p.encodeHeartbeat)
		now := time.Now().Add(time.Duration(step.Load()) + time.Hour).UnixMilli()
		return client.ZCount(t.Context(), s.parts[0].prefix+"job-batch-dues", "-inf", fmt.Sprint(now)).Val()
	}
	for _, want := range []int64{500, 1000, batches} {
		if got := due(); got != want {
			t.Errorf("%d are due, want %d", got, want)
		}
	}
}
