package redis

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/tools/conformance/busy"
	"redstalk/tube"
)

// testbed is an instance, and what Redis has of its reserved jobs.
type testbed struct {
	t      *testing.T
	redis  *redistest.Server
	client *goredis.Client
	s      *Store
	ahead  atomic.Int64
}

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	lab := &testbed{t: t, redis: redistest.Start(t)}
	lab.client = lab.redis.Client(t)
	lab.s = lab.open(lab.redis.URL(), patient)
	return lab
}

func (lab *testbed) open(url string, timeout time.Duration) *Store {
	lab.t.Helper()
	s, err := Open(context.Background(), Options{
		URL: url, Timeout: timeout, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		skew: func() time.Duration { return time.Duration(lab.ahead.Load()) },
	})
	if err != nil {
		lab.t.Fatal(err)
	}
	s.Listen(nopListener{})
	lab.t.Cleanup(func() { s.Close() })
	return s
}

// members returns a sorted set of the instance: ids without zeros in front, and
// for lease sets how many jobs they have.
func (lab *testbed) members(kind string) []string {
	const prefix = "redstalk:{0}:"
	got := []string{}
	key := prefix + kind + ":" + lab.s.parts[0].instance.name()
	for _, member := range lab.client.ZRange(context.Background(), key, 0, -1).Val() {
		member, _, _ = strings.Cut(strings.TrimPrefix(member, prefix), ";g")
		got = append(got, strings.TrimLeft(member, "0"))
	}
	return got
}

// look compares what Redis has reserved with what is wanted, ids or lease sets; the
// figures with how many jobs that is; and has fsck find nothing.
func (lab *testbed) look(what string, reserved uint64, want ...string) {
	lab.t.Helper()
	sets := slices.DeleteFunc(slices.Clone(want), func(m string) bool { return !strings.Contains(m, ";") })
	if got := lab.members("reserved"); !slices.Equal(got, want) {
		lab.t.Errorf("%s: %q are reserved, want %q", what, got, want)
	}
	if got := lab.members("groups"); !slices.Equal(got, sets) {
		lab.t.Errorf("%s: the lease sets are %q, want %q", what, got, sets)
	}
	got, of := figures(lab.t, lab.s).Reserved, uint64(0)
	if stats := do(lab.s, storage.Op{Kind: storage.TubeStats, Tube: "t"}).TubeStats; stats != nil {
		of = stats.Reserved
	}
	if got != reserved || of != reserved {
		lab.t.Errorf("%s: %d jobs are reserved, %d of the tube, want %d", what, got, of, reserved)
	}
	if _, wrong := checkAt(lab.t, lab.redis.URL(), false); len(wrong) > 0 {
		lab.t.Errorf("%s: %q", what, wrong)
	}
}

// remove has holder 1 delete jobs at once.
func (lab *testbed) remove(ids ...uint64) {
	lab.t.Helper()
	var ops []storage.Op
	for _, id := range ids {
		ops = append(ops, move(tube.Delete, 1, id))
	}
	storage.DoWait(lab.s, ops)
	for i := range ops {
		if a := ops[i].Answer; a.NotFound || a.Err != nil {
			lab.t.Errorf("delete of %d: %+v", ops[i].ID, a)
		}
	}
}

// TestLeaseSets: jobs of a range that are reserved together are one member of the
// sorted sets, until the last one is deleted, or something else becomes of one.
func TestLeaseSets(t *testing.T) {
	lab := newTestbed(t)
	s := lab.s
	putMany(t, s, 15, 5)
	takeMany(t, s, 15)
	lab.look("too few for a lease set", 15, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15")
	lab.remove(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	lab.look("deleted", 0)
	putMany(t, s, 50, 5)
	takeMany(t, s, 16)
	takeMany(t, s, 17)
	lab.look("two lease sets", 33, "16;16", "32;17")
	lab.remove(17, 18, 40, 31)
	lab.look("some are deleted", 29, "16;16", "32;17")
	lab.remove(16, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29)
	do(s, storage.Op{Kind: storage.Peek, ID: 1}) // a call that would tell
	lab.look("all of one are deleted but for one", 17, "16;16", "32;17")
	lab.remove(30)
	do(s, storage.Op{Kind: storage.Peek, ID: 1}) // a call that tells
	lab.look("all of one are deleted", 16, "32;17")
	if a := do(s, move(tube.Touch, 2, 33)); !a.NotFound {
		t.Errorf("touched by somebody else: %+v", a)
	}
	lab.look("touched by somebody else", 16, "32;17")
	release := move(tube.Release, 1, 35)
	release.Pri = 3
	do(s, release)
	lab.look("one is released", 15, "32", "33", "34", "36", "37", "38", "39", "41", "42", "43", "44", "45", "46", "47", "48")
	if ids, _ := takeMany(t, s, 1); !slices.Equal(ids, []uint64{35}) {
		t.Errorf("took %d after a release", ids)
	}
	lab.remove(32, 33, 34, 35, 36, 37, 38, 39, 41, 42, 43, 44, 45, 46, 47, 48)
	lab.look("all deleted", 0)
	takeMany(t, s, 17)
	lab.look("the rest of the range is taken", 17, "49;17")
	do(s, storage.Op{Kind: storage.ReleaseAll, Holder: 1})
	lab.look("the holder has left", 0)
	if got := figures(t, s); got.Ready != 17 {
		t.Errorf("%+v", got)
	}
}

// TestLeaseSetsOfTwo: two connections have jobs in one lease set, and one has others beside it.
func TestLeaseSetsOfTwo(t *testing.T) {
	lab := newTestbed(t)
	putMany(t, lab.s, 40, 5)
	takes := make([]storage.Op, 30)
	for i := range takes {
		takes[i] = take(tube.Holder(1 + i/20))
	}
	storage.DoWait(lab.s, takes)
	takeMany(t, lab.s, 2)
	lab.look("reserved", 32, "1;30", "31", "32")
	lab.remove(1, 31, 2, 32, 3)
	lab.look("deleted in the lease set and beside it", 27, "1;30")
	do(lab.s, storage.Op{Kind: storage.ReleaseAll, Holder: 2})
	if got := figures(t, lab.s); got.Ready != 18 || got.Reserved != 17 {
		t.Errorf("one of them has left: %+v", got)
	}
	lab.remove(4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	lab.look("deleted by the other one", 1, "20")
}

// TestLeaseSetsGivenBackInParts: as many lease sets are given back in one call as have the
// jobs that one may have.
func TestLeaseSetsGivenBackInParts(t *testing.T) {
	lab := newTestbed(t)
	other := lab.open(lab.redis.URL(), patient)
	putMany(t, lab.s, 5*maxTogether, 5)
	for range 5 {
		takeMany(t, lab.s, maxTogether)
	}
	do(other, storage.Op{Kind: storage.Pause, Tube: tube.Default}) // its first call, which has a heartbeat of its own
	lab.s.crash()
	lab.ahead.Add(int64(10 * time.Second))
	before := scriptCalls(t, lab.redis)
	other.Tick()
	awaitReserved(t, other, 0)
	if got := figures(t, other); got.Ready != 5*maxTogether {
		t.Errorf("%d are ready, want %d", got.Ready, 5*maxTogether)
	}
	if n := scriptCalls(t, lab.redis) - before; n < 3 {
		t.Errorf("%d jobs were given back in %d calls", 5*maxTogether, n)
	}
}

// TestLeaseSetsOfOneTTR: a range and a lease set have one TTR, and so one deadline.
func TestLeaseSetsOfOneTTR(t *testing.T) {
	lab := newTestbed(t)
	ops := make([]storage.Op, 60)
	for i := range ops {
		ops[i] = put("x")
		if i >= 30 {
			ops[i].TTR = 601
		}
	}
	storage.DoWait(lab.s, ops)
	takeMany(t, lab.s, 60)
	lab.look("reserved", 60, "1;30", "31;30")
	for id, want := range map[uint64]time.Duration{30: 600, 31: 601} {
		job := do(lab.s, storage.Op{Kind: storage.JobStats, ID: id}).Job
		if left := want*time.Second - job.TimeLeft; left < 0 || left > 30*time.Second || job.TTR != uint32(want) {
			t.Errorf("job %d has %v left, want %d s", id, job.TimeLeft, want)
		}
	}
}

// TestLeaseSetsOfOthers: another instance knows when a job in a lease set is due, may not
// touch it, and gives back what is left of the lease set when its instance is dead.
func TestLeaseSetsOfOthers(t *testing.T) {
	lab := newTestbed(t)
	other := lab.open(lab.redis.URL(), patient)
	putMany(t, lab.s, 20, 5)
	takeMany(t, lab.s, 20)
	lab.remove(1, 2, 7)
	job := do(other, storage.Op{Kind: storage.JobStats, ID: 9}).Job
	if job == nil || job.State != tube.Reserved || job.TimeLeft < 570*time.Second || job.TimeLeft > 600*time.Second {
		t.Errorf("%+v", job)
	}
	for _, m := range []tube.Move{tube.Delete, tube.Touch, tube.Bury, tube.ReserveJob} {
		if a := do(other, move(m, 1, 9)); !a.NotFound {
			t.Errorf("%v by another instance: %+v", m, a)
		}
	}
	if got := figures(t, other); got.Reserved != 17 || got.Ready != 0 {
		t.Errorf("%+v", got)
	}
	lab.s.crash()
	lab.ahead.Add(int64(10 * time.Second))
	other.Tick()
	if got := figures(t, other); got.Ready != 17 || got.Reserved != 0 {
		t.Errorf("given back: %+v", got)
	}
	if left := lab.members("groups"); len(left) > 0 {
		t.Errorf("lease sets are left: %q", left)
	}
	if ids, _ := takeMany(t, other, 20); len(ids) != 17 || ids[0] != 3 {
		t.Errorf("took %d", ids)
	}
	if _, wrong := checkAt(t, lab.redis.URL(), false); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

// TestLeaseSetsExpire: when the TTR of a lease set runs out, what is left of it is ready,
// and counts as run out.
func TestLeaseSetsExpire(t *testing.T) {
	lab := newTestbed(t)
	putMany(t, lab.s, 20, 5)
	takeMany(t, lab.s, 20)
	lab.remove(3, 4)
	lab.ahead.Add(int64(601 * time.Second))
	lab.s.Tick()
	lab.look("the TTR has run out", 0)
	if got := figures(t, lab.s); got.Ready != 18 || got.Timeouts != 18 {
		t.Errorf("%+v", got)
	}
	if a := do(lab.s, move(tube.Delete, 1, 5)); a.NotFound {
		t.Errorf("%+v", a)
	}
	if a := do(lab.s, move(tube.Release, 1, 6)); !a.NotFound {
		t.Errorf("released by a former holder: %+v", a)
	}
}

// TestLeaseSetsAskedAgain: a call that takes, deletes or releases is carried out once if
// its answer is lost, and one that never was leaves the lease set as it is.
func TestLeaseSetsAskedAgain(t *testing.T) {
	t.Parallel()
	lab := newTestbed(t)
	proxy := redistest.NewProxy(t, lab.redis)
	lab.s.Close()
	lab.s = lab.open(proxy.URL(), busy.Times(time.Second))
	putMany(t, lab.s, 40, 5)
	losing := func(what func()) {
		proxy.Judge(nil, once(redistest.Drop, 1, isAnswer))
		what()
		proxy.Judge(nil, nil)
	}
	away := func(what func()) {
		proxy.Judge(func([]byte) redistest.Fate { return redistest.Drop }, nil)
		what()
		proxy.Judge(nil, nil)
		figures(t, lab.s)
	}
	losing(func() { takeMany(t, lab.s, 20) })
	lab.look("taken", 20, "1;20")
	losing(func() { lab.remove(1, 2, 3) })
	lab.look("deleted", 17, "1;20")
	losing(func() { do(lab.s, storage.Op{Kind: storage.Peek, ID: 1}) })
	// The instance believes that the lease set is split, which was never carried out.
	away(func() {
		if a := do(lab.s, move(tube.Release, 1, 4)); a.Err == nil {
			t.Errorf("released by a Redis that is away: %+v", a)
		}
	})
	lab.look("not released", 17, "1;20")
	lab.remove(5, 6)
	lab.look("deleted one by one", 15, "1;20")
	takeMany(t, lab.s, 20)
	lab.remove(21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40)
	away(func() {
		if a := do(lab.s, storage.Op{Kind: storage.Peek, ID: 1}); a.Err == nil {
			t.Errorf("%+v", a)
		}
	})
	do(lab.s, storage.Op{Kind: storage.Peek, ID: 1}) // tells what that one could not
	lab.look("another lease set is over", 15, "1;20")
	do(lab.s, move(tube.Touch, 1, 7))
	lab.look("touched", 15, "4", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "7")
}

// TestLeaseSetsPastLostRecord: jobs whose record somebody has deleted are in no lease set,
// and are deleted without ado.
func TestLeaseSetsPastLostRecord(t *testing.T) {
	lab := newTestbed(t)
	putMany(t, lab.open(lab.redis.URL(), patient), 40, 5)
	lab.client.Del(context.Background(), "redstalk:{0}:"+digits(2), "redstalk:{0}:"+digits(30))
	if ids, _ := takeMany(t, lab.s, 19); len(ids) != 19 || len(lab.members("groups")) > 0 {
		t.Errorf("took %d, in the lease sets %q", ids, lab.members("groups"))
	}
	takeMany(t, lab.s, 9)
	putMany(t, lab.s, 20, 5)
	takeMany(t, lab.s, 10)
	takeMany(t, lab.s, 20)
	lab.client.Del(context.Background(), "redstalk:{0}:"+digits(45))
	lab.remove(44, 45, 46)
	if got := lab.client.HGet(context.Background(), "redstalk:{0}:counts", "grouped").Val(); got != "18" {
		t.Errorf("%s jobs are in lease sets, want 18: the lost one only fsck knows", got)
	}
}

// TestRepairLeaseSets damages lease sets, and has it found and set right.
func TestRepairLeaseSets(t *testing.T) {
	lab := newTestbed(t)
	ctx, p := context.Background(), "redstalk:{0}:"
	putMany(t, lab.s, 80, 5)
	for range 4 {
		takeMany(t, lab.s, 20)
	}
	lab.look("lease sets", 80, "1;20", "21;20", "41;20", "61;20")
	reserved, sets := p+"reserved:"+lab.s.parts[0].instance.name(), p+"groups:"+lab.s.parts[0].instance.name()
	members := lab.client.ZRange(ctx, sets, 0, -1).Val()
	lab.s.crash()
	lab.client.ZRem(ctx, reserved, members[0])
	lab.client.ZRem(ctx, sets, members[1])
	lab.client.ZAdd(ctx, p+"ready:t", goredis.Z{Score: 5, Member: p + digits(42)})
	lab.client.ZAdd(ctx, reserved, goredis.Z{Score: 1.8e12, Member: p + digits(63)})
	lab.client.HIncrBy(ctx, p+"counts", "grouped", 7)
	_, wrong := checkAt(t, lab.redis.URL(), false)
	text := strings.Join(wrong, "\n")
	inst := strings.TrimPrefix(reserved, p+"reserved:")
	for _, want := range []string{
		"groups:" + inst + " has a lease set that is not in reserved:" + inst,
		"reserved:" + inst + " has a lease set that is not in groups:" + inst,
		"job " + digits(42) + ": by its record it should be in ready:t, and it is in ready:t, reserved:" + inst,
		"reserved:" + inst + " has " + digits(63) + ": it is in a range and by itself",
		"grouped of counts is 87",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not found: %s\nin %s", want, text)
		}
	}
	lab.client.ZAdd(ctx, p+"instances", goredis.Z{Score: 1, Member: inst})
	checkAt(t, lab.redis.URL(), true)
	if _, left := checkAt(t, lab.redis.URL(), false); len(left) > 0 {
		t.Errorf("still wrong after the repair: %q", left)
	}
	s := lab.open(lab.redis.URL(), patient)
	lab.ahead.Add(int64(10 * time.Second))
	s.Tick()
	if got := figures(t, s); got.Ready != 80 || got.Reserved != 0 {
		t.Errorf("given back: %+v", got)
	}
}
