package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// loneTest is a store whose tube t has lone jobs, in the groups l0, l1, ….
type loneTest struct {
	*testing.T
	redis *redistest.Server
	s     *Store
}

func newLoneTest(t *testing.T) *loneTest {
	redis := redistest.Start(t)
	return &loneTest{t, redis, openAt(t, redis.URL(), patient)}
}

// count returns how many entries a key of the tube has.
func (lt *loneTest) count(key string) int64 {
	client, name := lt.redis.Client(lt), "redstalk:{0}:"+key
	if strings.HasPrefix(key, "lone:") || strings.HasPrefix(key, "lanes:") {
		return client.HLen(context.Background(), name).Val()
	}
	return client.ZCard(context.Background(), name).Val()
}

// want checks how many groups have a lone job, and how many members the queue of lone jobs and the sets of
// what is reserved have.
func (lt *loneTest) want(when string, lone, ready, reserved, sets int64) {
	lt.Helper()
	inst := lt.s.parts[0].instance.name()
	got := []int64{lt.count("lone:t"), lt.count("lone-ready:t"), lt.count("reserved:" + inst), lt.count("groups:" + inst)}
	if want := []int64{lone, ready, reserved, sets}; fmt.Sprint(got) != fmt.Sprint(want) {
		lt.Errorf("%s: lone, in the queue, reserved, lease sets are %d, want %d", when, got, want)
	}
	if _, wrong := checkAt(lt.T, lt.redis.URL(), false); len(wrong) > 0 {
		lt.Errorf("%s: %q", when, wrong)
	}
}

// takes takes jobs in one batch, and returns their ids.
func (lt *loneTest) takes(n int) (ids []uint64) {
	ops := make([]storage.Op, n)
	for i := range ops {
		ops[i] = take(1)
	}
	storage.DoWait(lt.s, ops)
	for i := range ops {
		if a := &ops[i].Answer; a.Err != nil || a.NotFound {
			lt.Fatalf("take %d: %+v", i, a)
		}
		ids = append(ids, ops[i].Answer.ID)
	}
	return ids
}

// deletes deletes jobs in one batch.
func (lt *loneTest) deletes(ids ...uint64) {
	lt.Helper()
	ops := make([]storage.Op, len(ids))
	for i, id := range ids {
		ops[i] = move(tube.Delete, 1, id)
	}
	storage.DoWait(lt.s, ops)
	for i := range ops {
		if a := &ops[i].Answer; a.Err != nil || a.NotFound {
			lt.Errorf("job %d is not deleted: %+v", ids[i], a)
		}
	}
}

// TestLoneJobs: jobs that are alone in their groups are put as ranges and taken as lease sets; a second
// job of a group makes the first an ordinary one, whether that is ready or reserved, and limits hold.
func TestLoneJobs(t *testing.T) {
	lt := newLoneTest(t)
	setPolicy(lt.s, "t", groupLimit(1))
	putLone(lt.s, "t", 0, 40)
	lt.want("after the puts", 40, 1, 0, 0)
	ids := lt.takes(20)
	lt.want("half of them are taken", 40, 1, 1, 1)
	lt.deletes(ids[:10]...)
	lt.want("half of these are deleted", 30, 1, 1, 1)
	putLone(lt.s, "t", 15, 16)
	putLone(lt.s, "t", 25, 26)
	lt.want("l15 is reserved and l25 ready", 28, 2, 1, 1)
	if got := groupStats(t, lt.s, "l15"); got.Ready != 1 || got.Reserved != 1 || got.Held != tube.HeldByConcurrency {
		t.Errorf("l15: %+v", got)
	}
	if got := groupStats(t, lt.s, "l16"); got.Ready != 0 || got.Reserved != 1 {
		t.Errorf("l16: %+v", got)
	}
	if next := lt.takes(20); next[5] != 26 || next[19] != 40 { // in the order of their puts
		t.Errorf("took %v", next)
	}
	if a := do(lt.s, take(1)); !a.NotFound {
		t.Errorf("a second job of a group at limit 1: %+v", a)
	}
	lt.deletes(ids[15])
	if a := do(lt.s, take(1)); a.NotFound {
		t.Error("the slot of l15 is not free")
	}
}

// TestLoneJobsLeave: lone jobs in ranges and lease sets can be released, buried, kicked, flushed and moved,
// and come back as ordinary ones.
func TestLoneJobsLeave(t *testing.T) {
	lt := newLoneTest(t)
	putLone(lt.s, "t", 0, 40)
	ids := lt.takes(20)
	do(lt.s, move(tube.Release, 1, ids[3]))
	do(lt.s, move(tube.Bury, 1, ids[4]))
	do(lt.s, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 2, ID: 31})
	do(lt.s, storage.Op{Kind: storage.SetPriority, ID: 35, Pri: 7})
	lt.want("after that", 36, 3, 19, 0)
	if next := lt.takes(3); next[0] != 21 || next[2] != 23 { // the group of the released one has just had its turn
		t.Errorf("took %v", next)
	}
	do(lt.s, storage.Op{Kind: storage.MoveJobs, Tube: "t", State: tube.Ready, MaxJobs: 4, Args: &storage.Args{To: "other"}})
	do(lt.s, storage.Op{Kind: storage.ReleaseAll, Holder: 1})
	do(lt.s, storage.Op{Kind: storage.Flush, Tube: "t", State: tube.Ready})
	lt.want("only the one of reserve-job is reserved", 0, 0, 1, 0)
	do(lt.s, storage.Op{Kind: storage.Flush, Tube: "t", State: tube.Gone})
	do(lt.s, storage.Op{Kind: storage.Flush, Tube: "t", State: tube.Reserved})
	for _, key := range []string{"lone:t", "lone-ready:t", "lanes:t", "lane-ready:t", "lane-jobs:t", "lane-reserved:t", "eligible:t"} {
		if n := lt.count(key); n != 0 {
			t.Errorf("%s has %d entries", key, n)
		}
	}
}

// TestLonePolicy: when a policy is set that does not let jobs be lone, those that are come in their order
// and obey it.
func TestLonePolicy(t *testing.T) {
	for name, policy := range map[string]*tube.Policy{
		"strict": {GroupOrder: tube.Strict}, "rate": {GroupLimits: tube.Limits{Rates: tube.Rates{0, 1, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			lt := newLoneTest(t)
			putLone(lt.s, "t", 0, 20)
			setPolicy(lt.s, "t", policy)
			putLone(lt.s, "t", 0, 20)
			for i, id := range lt.takes(20) {
				if id != uint64(i+1) {
					t.Errorf("take %d got job %d", i, id)
				}
			}
			if a := do(lt.s, take(1)); !a.NotFound {
				t.Errorf("it is held: %+v", a)
			}
			if _, wrong := checkAt(t, lt.redis.URL(), false); len(wrong) > 0 {
				t.Errorf("%q", wrong)
			}
		})
	}
}

// TestListLoneGroups: groups with lone jobs are listed in the order of their names, also if they are more
// than a call looks at.
func TestListLoneGroups(t *testing.T) {
	const groups = groupsLookedAt * 2
	lt := newLoneTest(t)
	for n := 0; n < groups; n += 400 {
		putLone(lt.s, "t", n, n+400)
	}
	putLone(lt.s, "t", 7, 8)
	for _, size := range []uint32{3, 450, groups} {
		seen, last, cursor := 0, "", ""
		for more := true; more && (size > 3 || seen < 30); more = cursor != "" {
			a := do(lt.s, storage.Op{Kind: storage.ListGroups, Tube: "t", MaxJobs: size, Args: &storage.Args{Cursor: cursor}})
			for _, g := range a.Result.Groups {
				if g.Name <= last || g.Ready == 0 {
					t.Fatalf("%+v after %s", g, last)
				}
				last = g.Name
			}
			seen, cursor = seen+len(a.Result.Groups), a.Result.Cursor
		}
		if size > 3 && seen != groups {
			t.Errorf("pages of %d have %d groups", size, seen)
		}
	}
}

// pagesOf reads the groups of tube t in pages, and calls a function between them.
func pagesOf(t *testing.T, s *Store, size uint32, between func(page int)) (names []string) {
	t.Helper()
	for page, cursor := 1, ""; ; page++ {
		a := do(s, storage.Op{Kind: storage.ListGroups, Tube: "t", MaxJobs: size, Args: &storage.Args{Cursor: cursor}})
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		for _, g := range a.Result.Groups {
			names = append(names, g.Name)
		}
		if cursor = a.Result.Cursor; cursor == "" {
			return names
		}
		between(page)
	}
}

// TestPagesOfLoneGroups: the pages of a list find what is there when they are read, though the names are not found again
// for each of them.
func TestPagesOfLoneGroups(t *testing.T) {
	t.Parallel()
	const groups, size = 3000, 100
	n := 0
	for most, mostCalls := range map[int]int64{mostNames: 60, 350: 110} {
		if n++; !inThisHalf(n) {
			continue
		}
		server := redistest.Start(t)
		s := openWith(t, Options{URL: server.URL(), Timeout: patient})
		s.parts[0].mostNames = most
		putIn := func(name string) { do(s, putGroup(name)) }
		inSteps(t, s, groups, func(n int) storage.Op { return putPri("t", fmt.Sprintf("g%04d", n), uint32(n)) })
		putIn("z")
		var want []string
		for n := range groups {
			want = append(want, fmt.Sprintf("g%04d", n))
		}
		before := scriptCalls(t, server)
		got := pagesOf(t, s, size, func(page int) {
			begun := scriptCalls(t, server)
			defer func() { before += scriptCalls(t, server) - begun }()
			switch page {
			case 5:
				putIn("g2000-new")
				putIn("a") // before the page
				want = append(want[:2001:2001], append([]string{"g2000-new"}, want[2001:]...)...)
			case 6:
				do(s, storage.Op{Kind: storage.PauseGroup, Tube: "t", Delay: 60, Args: &storage.Args{Group: "g2500"}}) // it is no longer lone
				var ops []storage.Op
				for n := 700; n < 1500; n++ {
					ops = append(ops, storage.Op{Kind: storage.Flush, Tube: "t", Args: &storage.Args{Group: fmt.Sprintf("g%04d", n)}})
				}
				storage.DoWait(s, append(ops, storage.Op{Kind: storage.Flush, Tube: "t", Args: &storage.Args{Group: "z"}}))
				want = slices.Concat(want[:700], want[1500:])
			}
		})
		if calls := scriptCalls(t, server) - before; calls > mostCalls {
			t.Errorf("%d calls of the script, want %d", calls, mostCalls)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d groups, want %d", len(got), len(want))
		}
	}
}
