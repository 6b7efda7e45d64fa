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
	"redstalk/tools/conformance/busy"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// leaseSetTest is an instance, and what Redis has of its reserved jobs.
type leaseSetTest struct {
	t      *testing.T
	redis  *redistest.Server
	client *goredis.Client
	s      *Store
	ahead  atomic.Int64
}

func newLeaseSetTest(t *testing.T) *leaseSetTest {
	t.Helper()
	lt := &leaseSetTest{t: t, redis: redistest.Start(t)}
	lt.client = lt.redis.Client(t)
	lt.s = lt.open(lt.redis.URL(), patient)
	return lt
}

func (lt *leaseSetTest) open(url string, timeout time.Duration) *Store {
	lt.t.Helper()
	s, err := Open(context.Background(), Options{
		URL: url, Timeout: timeout, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		skew: func() time.Duration { return time.Duration(lt.ahead.Load()) },
	})
	if err != nil {
		lt.t.Fatal(err)
	}
	s.Listen(nopListener{})
	lt.t.Cleanup(func() { s.Close() })
	return s
}

// members returns a sorted set of the instance: ids without leading zeros, and for lease sets
// how many jobs they have.
func (lt *leaseSetTest) members(kind string) []string {
	const prefix = "redstalk:{0}:"
	got := []string{}
	key := prefix + kind + ":" + lt.s.parts[0].instance.name()
	for _, member := range lt.client.ZRange(context.Background(), key, 0, -1).Val() {
		member, _, _ = strings.Cut(strings.TrimPrefix(member, prefix), ";g")
		got = append(got, strings.TrimLeft(member, "0"))
	}
	return got
}

// check compares what Redis has reserved with ids or lease sets, and the figures with the
// number of jobs, and runs fsck.
func (lt *leaseSetTest) check(what string, reserved uint64, want ...string) {
	lt.t.Helper()
	sets := slices.DeleteFunc(slices.Clone(want), func(m string) bool { return !strings.Contains(m, ";") })
	if got := lt.members("reserved"); !slices.Equal(got, want) {
		lt.t.Errorf("%s: %q are reserved, want %q", what, got, want)
	}
	if got := lt.members("groups"); !slices.Equal(got, sets) {
		lt.t.Errorf("%s: the lease sets are %q, want %q", what, got, sets)
	}
	got, of := figures(lt.t, lt.s).Reserved, uint64(0)
	if stats := do(lt.s, storage.Op{Kind: storage.TubeStats, Tube: "t"}).TubeStats; stats != nil {
		of = stats.Reserved
	}
	if got != reserved || of != reserved {
		lt.t.Errorf("%s: %d jobs are reserved, %d of the tube, want %d", what, got, of, reserved)
	}
	if _, wrong := checkAt(lt.t, lt.redis.URL(), false); len(wrong) > 0 {
		lt.t.Errorf("%s: %q", what, wrong)
	}
}

// remove deletes jobs of holder 1 in one batch.
func (lt *leaseSetTest) remove(ids ...uint64) {
	lt.t.Helper()
	var ops []storage.Op
	for _, id := range ids {
		ops = append(ops, move(tube.Delete, 1, id))
	}
	storage.DoWait(lt.s, ops)
	for i := range ops {
		if a := ops[i].Answer; a.NotFound || a.Err != nil {
			lt.t.Errorf("delete of %d: %+v", ops[i].ID, a)
		}
	}
}

// TestLeaseSets: jobs of a range that are reserved together are one member of the sorted sets,
// until the last one is deleted, or another operation changes one.
func TestLeaseSets(t *testing.T) {
	lt := newLeaseSetTest(t)
	s := lt.s
	putMany(t, s, 15, 5)
	takeMany(t, s, 15)
	lt.check("too few for a lease set", 15, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15")
	lt.remove(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	lt.check("deleted", 0)
	putMany(t, s, 50, 5)
	takeMany(t, s, 16)
	takeMany(t, s, 17)
	lt.check("two lease sets", 33, "16;16", "32;17")
	lt.remove(17, 18, 40, 31)
	lt.check("some are deleted", 29, "16;16", "32;17")
	lt.remove(16, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29)
	do(s, storage.Op{Kind: storage.Peek, ID: 1}) // a call that would report it
	lt.check("all of one are deleted but for one", 17, "16;16", "32;17")
	lt.remove(30)
	do(s, storage.Op{Kind: storage.Peek, ID: 1}) // a call that reports it
	lt.check("all of one are deleted", 16, "32;17")
	if a := do(s, move(tube.Touch, 2, 33)); !a.NotFound {
		t.Errorf("touched by somebody else: %+v", a)
	}
	lt.check("touched by somebody else", 16, "32;17")
	release := move(tube.Release, 1, 35)
	release.Pri = 3
	do(s, release)
	lt.check("one is released", 15, "32", "33", "34", "36", "37", "38", "39", "41", "42", "43", "44", "45", "46", "47", "48")
	if ids, _ := takeMany(t, s, 1); !slices.Equal(ids, []uint64{35}) {
		t.Errorf("took %d after a release", ids)
	}
	lt.remove(32, 33, 34, 35, 36, 37, 38, 39, 41, 42, 43, 44, 45, 46, 47, 48)
	lt.check("all deleted", 0)
	takeMany(t, s, 17)
	lt.check("the rest of the range is taken", 17, "49;17")
	do(s, storage.Op{Kind: storage.ReleaseAll, Holder: 1})
	lt.check("the holder has left", 0)
	if got := figures(t, s); got.Ready != 17 {
		t.Errorf("%+v", got)
	}
}

// TestLeaseSetsOfTwo: two connections have jobs in one lease set, and one has others beside it.
func TestLeaseSetsOfTwo(t *testing.T) {
	lt := newLeaseSetTest(t)
	putMany(t, lt.s, 40, 5)
	takes := make([]storage.Op, 30)
	for i := range takes {
		takes[i] = take(tube.Holder(1 + i/20))
	}
	storage.DoWait(lt.s, takes)
	takeMany(t, lt.s, 2)
	lt.check("reserved", 32, "1;30", "31", "32")
	lt.remove(1, 31, 2, 32, 3)
	lt.check("deleted in the lease set and beside it", 27, "1;30")
	do(lt.s, storage.Op{Kind: storage.ReleaseAll, Holder: 2})
	if got := figures(t, lt.s); got.Ready != 18 || got.Reserved != 17 {
		t.Errorf("one of them has left: %+v", got)
	}
	lt.remove(4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	lt.check("deleted by the other one", 1, "20")
}

// TestLeaseSetsGivenBackInParts: one call gives back as many lease sets as hold the jobs of one
// call.
func TestLeaseSetsGivenBackInParts(t *testing.T) {
	lt := newLeaseSetTest(t)
	other := lt.open(lt.redis.URL(), patient)
	putMany(t, lt.s, 5*maxTogether, 5)
	for range 5 {
		takeMany(t, lt.s, maxTogether)
	}
	do(other, storage.Op{Kind: storage.Pause, Tube: tube.Default}) // its first call, which has a heartbeat of its own
	lt.s.crash()
	lt.ahead.Add(int64(10 * time.Second))
	before := scriptCalls(t, lt.redis)
	other.Tick()
	awaitReserved(t, other, 0)
	if got := figures(t, other); got.Ready != 5*maxTogether {
		t.Errorf("%d are ready, want %d", got.Ready, 5*maxTogether)
	}
	if n := scriptCalls(t, lt.redis) - before; n < 3 {
		t.Errorf("%d jobs were given back in %d calls", 5*maxTogether, n)
	}
}

// TestLeaseSetsOfOneTTR: a range and a lease set have one TTR, and so one deadline.
func TestLeaseSetsOfOneTTR(t *testing.T) {
	lt := newLeaseSetTest(t)
	ops := make([]storage.Op, 60)
	for i := range ops {
		ops[i] = put("x")
		if i >= 30 {
			ops[i].TTR = 601
		}
	}
	storage.DoWait(lt.s, ops)
	takeMany(t, lt.s, 60)
	lt.check("reserved", 60, "1;30", "31;30")
	for id, want := range map[uint64]time.Duration{30: 600, 31: 601} {
		job := do(lt.s, storage.Op{Kind: storage.JobStats, ID: id}).Job
		if left := want*time.Second - job.TimeLeft; left < 0 || left > 30*time.Second || job.TTR != uint32(want) {
			t.Errorf("job %d has %v left, want %d s", id, job.TimeLeft, want)
		}
	}
}

// TestLeaseSetsOfOthers: another instance knows the due time of a job in a lease set, cannot
// change it, and gives back what is left of the lease set when its instance is dead.
func TestLeaseSetsOfOthers(t *testing.T) {
	lt := newLeaseSetTest(t)
	other := lt.open(lt.redis.URL(), patient)
	putMany(t, lt.s, 20, 5)
	takeMany(t, lt.s, 20)
	lt.remove(1, 2, 7)
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
	lt.s.crash()
	lt.ahead.Add(int64(10 * time.Second))
	other.Tick()
	if got := figures(t, other); got.Ready != 17 || got.Reserved != 0 {
		t.Errorf("given back: %+v", got)
	}
	if left := lt.members("groups"); len(left) > 0 {
		t.Errorf("lease sets are left: %q", left)
	}
	if ids, _ := takeMany(t, other, 20); len(ids) != 17 || ids[0] != 3 {
		t.Errorf("took %d", ids)
	}
	if _, wrong := checkAt(t, lt.redis.URL(), false); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

// TestLeaseSetsExpire: when the TTR of a lease set ends, its remaining jobs are ready, and
// count as timeouts.
func TestLeaseSetsExpire(t *testing.T) {
	lt := newLeaseSetTest(t)
	putMany(t, lt.s, 20, 5)
	takeMany(t, lt.s, 20)
	lt.remove(3, 4)
	lt.ahead.Add(int64(601 * time.Second))
	lt.s.Tick()
	lt.check("the TTR has run out", 0)
	if got := figures(t, lt.s); got.Ready != 18 || got.Timeouts != 18 {
		t.Errorf("%+v", got)
	}
	if a := do(lt.s, move(tube.Delete, 1, 5)); a.NotFound {
		t.Errorf("%+v", a)
	}
	if a := do(lt.s, move(tube.Release, 1, 6)); !a.NotFound {
		t.Errorf("released by a former holder: %+v", a)
	}
}

// TestLeaseSetsAskedAgain: a call that takes, deletes or releases is carried out once if its
// reply is lost, and one that never was carried out leaves the lease set as it is.
func TestLeaseSetsAskedAgain(t *testing.T) {
	t.Parallel()
	lt := newLeaseSetTest(t)
	proxy := redistest.NewProxy(t, lt.redis)
	lt.s.Close()
	lt.s = lt.open(proxy.URL(), busy.Times(time.Second))
	putMany(t, lt.s, 40, 5)
	losing := func(what func()) {
		proxy.Intercept(nil, once(redistest.Drop, 1, isAnswer))
		what()
		proxy.Intercept(nil, nil)
	}
	away := func(what func()) {
		proxy.Intercept(func([]byte) redistest.Fate { return redistest.Drop }, nil)
		what()
		proxy.Intercept(nil, nil)
		figures(t, lt.s)
	}
	losing(func() { takeMany(t, lt.s, 20) })
	lt.check("taken", 20, "1;20")
	losing(func() { lt.remove(1, 2, 3) })
	lt.check("deleted", 17, "1;20")
	losing(func() { do(lt.s, storage.Op{Kind: storage.Peek, ID: 1}) })
	// The instance believes that the lease set is split, which was never carried out.
	away(func() {
		if a := do(lt.s, move(tube.Release, 1, 4)); a.Err == nil {
			t.Errorf("released by a Redis that is away: %+v", a)
		}
	})
	lt.check("not released", 17, "1;20")
	lt.remove(5, 6)
	lt.check("deleted one by one", 15, "1;20")
	takeMany(t, lt.s, 20)
	lt.remove(21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40)
	away(func() {
		if a := do(lt.s, storage.Op{Kind: storage.Peek, ID: 1}); a.Err == nil {
			t.Errorf("%+v", a)
		}
	})
	do(lt.s, storage.Op{Kind: storage.Peek, ID: 1}) // reports what that one could not
	lt.check("another lease set is over", 15, "1;20")
	do(lt.s, move(tube.Touch, 1, 7))
	lt.check("touched", 15, "4", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "7")
}

// TestLeaseSetsPastLostRecord: jobs whose record somebody has deleted are in no lease set, and
// can be deleted.
func TestLeaseSetsPastLostRecord(t *testing.T) {
	lt := newLeaseSetTest(t)
	putMany(t, lt.open(lt.redis.URL(), patient), 40, 5)
	lt.client.Del(context.Background(), "redstalk:{0}:"+digits(2), "redstalk:{0}:"+digits(30))
	if ids, _ := takeMany(t, lt.s, 19); len(ids) != 19 || len(lt.members("groups")) > 0 {
		t.Errorf("took %d, in the lease sets %q", ids, lt.members("groups"))
	}
	takeMany(t, lt.s, 9)
	putMany(t, lt.s, 20, 5)
	takeMany(t, lt.s, 10)
	takeMany(t, lt.s, 20)
	lt.client.Del(context.Background(), "redstalk:{0}:"+digits(45))
	lt.remove(44, 45, 46)
	if got := lt.client.HGet(context.Background(), "redstalk:{0}:counts", "grouped").Val(); got != "18" {
		t.Errorf("%s jobs are in lease sets, want 18: the lost one only fsck knows", got)
	}
}

// TestRepairLeaseSets damages lease sets, and then finds and corrects that.
func TestRepairLeaseSets(t *testing.T) {
	lt := newLeaseSetTest(t)
	ctx, p := context.Background(), "redstalk:{0}:"
	putMany(t, lt.s, 80, 5)
	for range 4 {
		takeMany(t, lt.s, 20)
	}
	lt.check("lease sets", 80, "1;20", "21;20", "41;20", "61;20")
	reserved, sets := p+"reserved:"+lt.s.parts[0].instance.name(), p+"groups:"+lt.s.parts[0].instance.name()
	members := lt.client.ZRange(ctx, sets, 0, -1).Val()
	lt.s.crash()
	lt.client.ZRem(ctx, reserved, members[0])
	lt.client.ZRem(ctx, sets, members[1])
	lt.client.ZAdd(ctx, p+"ready:t", goredis.Z{Score: 5, Member: p + digits(42)})
	lt.client.ZAdd(ctx, reserved, goredis.Z{Score: 1.8e12, Member: p + digits(63)})
	lt.client.HIncrBy(ctx, p+"counts", "grouped", 7)
	_, wrong := checkAt(t, lt.redis.URL(), false)
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
	lt.client.ZAdd(ctx, p+"instances", goredis.Z{Score: 1, Member: inst})
	checkAt(t, lt.redis.URL(), true)
	if _, left := checkAt(t, lt.redis.URL(), false); len(left) > 0 {
		t.Errorf("still wrong after the repair: %q", left)
	}
	s := lt.open(lt.redis.URL(), patient)
	lt.ahead.Add(int64(10 * time.Second))
	s.Tick()
	if got := figures(t, s); got.Ready != 80 || got.Reserved != 0 {
		t.Errorf("given back: %+v", got)
	}
}
