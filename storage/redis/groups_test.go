package redis

import (
	"context"
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

// putGroup puts a job of a group into the tube t.
func putGroup(group string) storage.Op {
	return storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Args: &storage.Args{Tags: &tube.Tags{Group: group}}}
}

// groupOp is an operation on a group of the tube t.
func groupOp(kind storage.Kind, group string) storage.Op {
	return storage.Op{Kind: kind, Tube: "t", Args: &storage.Args{Group: group}}
}

// groupStats returns the stats of a group of the tube t.
func groupStats(t *testing.T, s *Store, group string) tube.GroupStats {
	t.Helper()
	a := do(s, groupOp(storage.GroupStats, group))
	if a.Err != nil || a.NotFound {
		t.Fatalf("group %s: %+v", group, a)
	}
	return a.Result.Groups[0]
}

func groupLimit(n uint32) *tube.Policy { return &tube.Policy{GroupLimits: tube.Limits{Concurrency: n}} }

// TestFreedSlotWakesOne: when a job of a group ends, one instance that waits is woken, and may start
// the next one; never more than the limit allows.
func TestFreedSlotWakesOne(t *testing.T) {
	w := newWakeUpTest(t)
	a, b := w.instance(1), w.instance(1)
	setPolicy(a.Store, "t", groupLimit(1))
	do(a.Store, putGroup("g"))
	do(a.Store, putGroup("g"))
	first := do(a.Store, takeFrom(1, false, "t"))
	w.wait(b, "t")
	w.wait(a, "t")
	w.wantWoken("while the group is at its limit", b)
	do(a.Store, move(tube.Delete, 1, first.ID))
	w.wantWoken("a slot is free", b, "t")
	w.wantWoken("no other one", a)
	if got := do(b.Store, takeFrom(1, false, "t")); got.NotFound || got.Err != nil {
		t.Errorf("there is no job: %+v", got)
	}
}

// TestEachWayFreesASlot: whatever ends a reservation makes the next job of its group eligible.
func TestEachWayFreesASlot(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *Store, id uint64){
		"delete":  func(s *Store, id uint64) { do(s, move(tube.Delete, 1, id)) },
		"release": func(s *Store, id uint64) { do(s, move(tube.Release, 1, id)) },
		"bury":    func(s *Store, id uint64) { do(s, move(tube.Bury, 1, id)) },
		"delay": func(s *Store, id uint64) {
			do(s, storage.Op{Kind: storage.Move, Move: tube.Release, Holder: 1, ID: id, Delay: 100})
		},
		"gone":  func(s *Store, id uint64) { do(s, storage.Op{Kind: storage.ReleaseAll, Holder: 1}) },
		"flush": func(s *Store, id uint64) { do(s, storage.Op{Kind: storage.Flush, Tube: "t", State: tube.Reserved}) },
		"key": func(s *Store, id uint64) {
			do(s, storage.Op{Kind: storage.DeleteKey, Tube: "t", Args: &storage.Args{Key: "k"}})
		},
		"replaced": func(s *Store, id uint64) {
			tags := &tube.Tags{Key: "k", Group: "g", OnDuplicate: tube.Replace}
			do(s, storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Args: &storage.Args{Tags: tags}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.Start(t)
			s := openAt(t, redis.URL(), patient)
			setPolicy(s, "t", groupLimit(1))
			id := do(s, storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Args: &storage.Args{Tags: &tube.Tags{Key: "k", Group: "g"}}}).ID
			do(s, putGroup("g"))
			if a := do(s, take(1)); a.ID != id {
				t.Fatalf("took %+v", a)
			}
			if a := do(s, take(2)); !a.NotFound {
				t.Fatalf("two jobs run at limit 1: %+v", a)
			}
			if held := groupStats(t, s, "g").Held; held != tube.HeldByConcurrency {
				t.Errorf("held: %s", held)
			}
			end(s, id)
			if a := do(s, take(2)); a.NotFound || a.Err != nil {
				t.Errorf("the slot is not free: %+v", a)
			}
			if _, wrong := checkAt(t, redis.URL(), false); len(wrong) > 0 {
				t.Errorf("%q", wrong)
			}
		})
	}
}

// TestRaisedLimitWakes: when a limit is raised as many clients are woken as jobs may start, and when
// a pause ends.
func TestRaisedLimitWakes(t *testing.T) {
	w := newWakeUpTest(t)
	a, b := w.instance(1), w.instance(1)
	setPolicy(a.Store, "t", groupLimit(1))
	for range 5 {
		do(a.Store, putGroup("g"))
	}
	do(a.Store, takeFrom(1, false, "t"))
	w.wait(a, "t")
	w.wait(b, "t")
	setPolicy(b.Store, "t", groupLimit(3))
	w.wantWoken("of the two jobs that may start, one is for it", a, "t")
	w.wantWoken("and one for the other", b, "t")
	pause := groupOp(storage.PauseGroup, "g")
	pause.Delay = 1000
	do(a.Store, pause)
	w.wait(a, "t")
	pause.Delay = 0
	do(b.Store, pause)
	w.wantWoken("the pause ends; one more for the others", a, "t")
}

// TestManyGroupsBecomeEligible: when a policy changes, the groups of a large tube are looked at in
// steps, none of which is long, and no limit is exceeded meanwhile.
func TestManyGroupsBecomeEligible(t *testing.T) {
	t.Parallel()
	const groups = 3000
	server := redistest.Start(t)
	s := openWith(t, Options{URL: server.URL(), Timeout: patient})
	setPolicy(s, "t", groupLimit(1))
	for from := 0; from < groups; from += 250 {
		var puts, takes []storage.Op
		for n := range 250 {
			puts = append(puts, putGroup(fmt.Sprint("g", from+n)), putGroup(fmt.Sprint("g", from+n)))
			takes = append(takes, take(1))
		}
		storage.DoWait(s, puts)
		storage.DoWait(s, takes)
	}
	if a := do(s, take(1)); !a.NotFound {
		t.Fatalf("took %+v", a)
	}
	most := mostCommands(t, server, func() {
		setPolicy(s, "t", groupLimit(2))
		for {
			if next, err := s.TickAll(); err != nil {
				t.Fatal(err)
			} else if next > 0 {
				break
			}
		}
	})
	if most > 500*8 {
		t.Errorf("one call makes %d calls of Redis", most)
	}
	if n := server.Client(t).ZCard(context.Background(), "redstalk:{0}:eligible:t").Val(); n != groups {
		t.Errorf("%d of %d groups are eligible", n, groups)
	}
	setPolicy(s, "t", groupLimit(1))
	if a := do(s, take(1)); !a.NotFound {
		t.Errorf("the lower limit is exceeded: %+v", a)
	}
}

// TestSlotsOfDeadInstance: the slots of an instance that dies are free when it has been reclaimed.
func TestSlotsOfDeadInstance(t *testing.T) {
	server := redistest.Start(t)
	a := openWith(t, Options{URL: server.URL(), Timeout: patient})
	b := openWith(t, Options{URL: server.URL(), Timeout: patient})
	setPolicy(a, "t", &tube.Policy{GroupLimits: tube.Limits{Concurrency: 2}, Limits: tube.Limits{Concurrency: 3}})
	for range 4 {
		do(a, putGroup("g"))
	}
	do(a, put("plain"))
	do(a, put("plain"))
	for range 3 {
		if got := do(a, take(1)); got.NotFound {
			t.Fatal("no job")
		}
	}
	if got := do(b, take(1)); !got.NotFound {
		t.Fatalf("the limit of the tube is exceeded: %+v", got)
	}
	dead := a.parts[0].instance.name()
	a.crash()
	client, ctx := server.Client(t), context.Background()
	client.Set(ctx, "redstalk:{0}:batch:"+dead, "dead", 0)
	b.parts[0].do(func(c *call) { c.add(skipNumber, "reclaim", dead, 100, -1) })
	if got := groupStats(t, b, "g"); got.Reserved != 0 || got.Ready != 4 || got.Held != tube.NotHeld {
		t.Errorf("%+v", got)
	}
	for range 3 {
		if got := do(b, take(1)); got.NotFound {
			t.Errorf("a slot has leaked: %+v", got)
		}
	}
	if got := do(b, take(1)); !got.NotFound {
		t.Errorf("the limit of the tube is exceeded: %+v", got)
	}
}

// TestRateIsShared: two instances share what a rate leaves; and a token that comes back wakes a
// client, without polling.
func TestRateIsShared(t *testing.T) {
	w := newWakeUpTest(t)
	var ahead atomic.Int64
	w.skew = func() time.Duration { return time.Duration(ahead.Load()) }
	a, b := w.instance(1), w.instance(1)
	setPolicy(a.Store, "t", &tube.Policy{GroupLimits: tube.Limits{Rates: tube.Rates{0, 2, 0}}})
	for range 6 {
		do(a.Store, putGroup("g"))
	}
	if x, y := do(a.Store, takeFrom(1, false, "t")), do(b.Store, takeFrom(1, false, "t")); x.NotFound || y.NotFound {
		t.Fatalf("%+v, %+v", x, y)
	}
	if held := groupStats(t, a.Store, "g").Held; held != tube.HeldByRate {
		t.Errorf("held: %q", held)
	}
	w.wait(b, "t")
	pass := func(seconds int) {
		for range seconds {
			ahead.Add(int64(time.Second))
			for _, s := range []*Store{a.Store, b.Store} {
				if _, err := s.TickAll(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	pass(30)
	w.wantWoken("before a token is back", b)
	pass(30)
	w.wantWoken("a token is back", b, "t")
	for range 2 {
		if got := do(b.Store, takeFrom(1, false, "t")); got.NotFound || got.Err != nil {
			t.Errorf("the tokens are not back: %+v", got)
		}
	}
	if got := do(a.Store, takeFrom(1, false, "t")); !got.NotFound {
		t.Errorf("more than the rate has started: %+v", got)
	}
}

// TestPauseAfterClockBack: when the clock of Redis goes back, the pause of a tube lasts no longer than it was to.
func TestPauseAfterClockBack(t *testing.T) {
	t.Parallel()
	var step, ahead atomic.Int64
	s := openWith(t, Options{
		URL: redistest.Start(t).URL(), Timeout: patient, redisStep: func() time.Duration { return time.Duration(step.Load()) },
		skew: func() time.Duration { return time.Duration(ahead.Load()) },
	})
	do(s, put("x"))
	do(s, storage.Op{Kind: storage.Pause, Tube: "t", Delay: 60})
	step.Store(int64(-7 * 24 * time.Hour))
	for range 7 {
		if !do(s, takeFrom(1, false, "t")).NotFound {
			t.Fatal("the pause has ended early")
		}
		ahead.Add(int64(10 * time.Second))
		if _, err := s.TickAll(); err != nil {
			t.Fatal(err)
		}
	}
	if do(s, takeFrom(1, false, "t")).NotFound {
		t.Error("the pause has not ended")
	}
}

// TestRatesAfterClockBack: when the clock of Redis goes back, a start counts for a period from then on and no longer; and what a
// tick was to look at is looked at.
func TestRatesAfterClockBack(t *testing.T) {
	const jobs = 4
	limits := tube.Limits{Rates: tube.Rates{0, 2, 0}}
	for name, policy := range map[string]*tube.Policy{"tube": {Limits: limits}, "group": {GroupLimits: limits}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var step, ahead atomic.Int64
			server := redistest.Start(t)
			s := openWith(t, Options{
				URL: server.URL(), Timeout: patient, redisStep: func() time.Duration { return time.Duration(step.Load()) },
				skew: func() time.Duration { return time.Duration(ahead.Load()) },
			})
			setPolicy(s, "t", policy)
			for range jobs {
				do(s, putGroup("g"))
			}
			started := func() (n int) {
				for !do(s, takeFrom(1, false, "t")).NotFound {
					n++
				}
				return n
			}
			pass := func(d time.Duration) {
				for ; d > 0; d -= 10 * time.Second {
					ahead.Add(int64(10 * time.Second))
					if _, err := s.TickAll(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if n := started(); n != 2 {
				t.Fatalf("%d jobs have started at once", n)
			}
			step.Store(int64(-7 * 24 * time.Hour))
			pass(10 * time.Second)
			if n := started(); n != 0 {
				t.Errorf("%d more within the minute", n)
			}
			pass(time.Minute)
			if n := started(); n != 2 {
				t.Errorf("%d have started after a minute", n)
			}
			s.Close()
			if _, wrong := checkAt(t, server.URL(), false); len(wrong) > 0 {
				t.Errorf("%q", wrong)
			}
		})
	}
}

// TestWaitersAfterClockBack: when the clock of Redis goes back, who waits for the rate of a tube without groups is woken.
func TestWaitersAfterClockBack(t *testing.T) {
	t.Parallel()
	var step, ahead atomic.Int64
	w := newWakeUpTest(t)
	w.skew, w.step = func() time.Duration { return time.Duration(ahead.Load()) }, func() time.Duration { return time.Duration(step.Load()) }
	a := w.instance(1)
	setPolicy(a.Store, "t", &tube.Policy{Limits: tube.Limits{Rates: tube.Rates{0, 1, 0}}})
	w.put(a, "t", 2)
	do(a.Store, takeFrom(1, false, "t"))
	w.wait(a, "t")
	step.Store(int64(-7 * 24 * time.Hour))
	for range 7 {
		ahead.Add(int64(10 * time.Second))
		if _, err := a.TickAll(); err != nil {
			t.Fatal(err)
		}
	}
	w.wantWoken("a minute later", a, "t")
}

// TestRepairOfGroups damages everything about groups, and then finds and corrects it.
func TestRepairOfGroups(t *testing.T) {
	redis := redistest.Start(t)
	ctx, client, p := context.Background(), redis.Client(t), "redstalk:{0}:"
	s := openAt(t, redis.URL(), patient)
	fillGroups(s)
	s.Close()
	if _, wrong := checkAt(t, redis.URL(), false); len(wrong) > 0 {
		t.Fatalf("before the damage: %q", wrong)
	}
	client.ZRem(ctx, p+"lane-jobs:t", "a\x00r0000000000"+digits(2))
	client.ZAdd(ctx, p+"lane-jobs:t", goredis.Z{Member: "zz\x00d" + digits(77)})
	client.ZAdd(ctx, p+"lane-reserved:t", goredis.Z{Member: "a\x00" + digits(2)})
	client.ZRem(ctx, p+"lane-ready:t", p+digits(3))
	client.HDel(ctx, p+"lanes:t", "b")
	client.ZAdd(ctx, p+"eligible:t", goredis.Z{Member: strings.Repeat("0", 47) + "nobody"})
	client.Del(ctx, p+"limited", p+"configured:t", p+"rechecks:t")
	client.HSet(ctx, p+"group-tubes", "other", "")
	client.HDel(ctx, p+"limit-policies", "t")
	client.HDel(ctx, p+"lone:lone", "l1")
	client.HSet(ctx, p+"lone:lone", "ghost", digits(77))
	client.HIncrBy(ctx, p+"tube:lone", "joined-lone", 3)
	_, wrong := checkAt(t, redis.URL(), false)
	text := strings.Join(wrong, "\n")
	for _, want := range []string{
		"job " + digits(2) + ": its group a does not know its state", "lane-jobs:t has " + digits(77), "lane-reserved:t has " + digits(2),
		"job " + digits(3) + ": by its record it should be in lane-ready:t, and it is nowhere", "group b has ready jobs, and is not in lanes:t",
		"eligible:t has nobody", "it is not known that it has jobs with groups", "group-tubes has other", "limit-policies lacks t", "limited is wrong",
		"group-pauses:t has c, which is not in configured:t", "group-pauses:t has c, which is not in rechecks:t",
		"group-limits:t has a, which is not in rechecks:t", "lone:lone has ghost", "by its record it should be in lane-ready:lone, and it is in lone-ready:lone",
		"joined-lone of tube:lone is 8, and should be 5",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not found: %s", want)
		}
	}
	if _, again := checkAt(t, redis.URL(), false); !slices.Equal(again, wrong) {
		t.Errorf("looking has changed something: %q", again)
	}
	checkAt(t, redis.URL(), true)
	if _, left := checkAt(t, redis.URL(), false); len(left) > 0 {
		t.Errorf("still wrong after the repair: %q", left)
	}
	checkGroupsWork(t, redis)
}

// fillGroups puts jobs of groups into all states: in the tube t 1 is reserved, 2, 3 and 4 are ready, 5
// is delayed and 6 buried; group a is limited, and group c is paused.
func fillGroups(s *Store) {
	setPolicy(s, "t", groupLimit(1))
	for _, group := range []string{"a", "a", "b", "b"} {
		do(s, putGroup(group))
	}
	do(s, take(1))
	delayed := putGroup("b")
	delayed.Args.Tags.HasDelay, delayed.Args.Tags.Delay = true, time.Hour
	do(s, delayed)
	buried := do(s, putGroup("c")).ID
	do(s, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: buried})
	do(s, move(tube.Bury, 1, buried))
	config := groupOp(storage.SetGroup, "a")
	config.Args.GroupConfig = &tube.GroupConfig{Weight: 2, TTL: time.Hour}
	do(s, config)
	pause := groupOp(storage.PauseGroup, "c")
	pause.Delay = 1000
	do(s, pause)
	putLone(s, "lone", 0, 6)
}

// putLone puts jobs into the groups l and a number from one on, up to another, of a tube, in one batch.
func putLone(s *Store, name string, from, upto int) {
	var puts []storage.Op
	for n := from; n < upto; n++ {
		op := putGroup(fmt.Sprint("l", n))
		op.Tube = name
		puts = append(puts, op)
	}
	storage.DoWait(s, puts)
}

// checkGroupsWork checks that after a repair the groups of fillGroups can be used: nothing is reserved
// any more.
func checkGroupsWork(t *testing.T, redis *redistest.Server) {
	t.Helper()
	s := openAt(t, redis.URL(), patient)
	if _, err := s.TickAll(); err != nil {
		t.Fatal(err)
	}
	if got := groupStats(t, s, "b"); got.Ready != 2 || got.Delayed != 1 {
		t.Errorf("%+v", got)
	}
	var took []uint64
	for range 3 {
		if a := do(s, take(2)); !a.NotFound {
			took = append(took, a.ID)
		}
	}
	if len(took) != 2 { // one of a, one of b
		t.Errorf("took %v at limit 1", took)
	}
	s.Close()
	if _, left := checkAt(t, redis.URL(), false); len(left) > 0 {
		t.Errorf("after use: %q", left)
	}
}

// TestNothingIsLeft: when the jobs of a tube are gone, nothing about groups is left, and a batch does
// not ask for groups any more.
func TestNothingIsLeft(t *testing.T) {
	redis := redistest.Start(t)
	s := openAt(t, redis.URL(), patient)
	for n := range 20 {
		do(s, putGroup(fmt.Sprint("g", n%7)))
	}
	for range 5 {
		do(s, move(tube.Delete, 1, do(s, take(1)).ID))
	}
	do(s, take(1))
	do(s, storage.Op{Kind: storage.Flush, Tube: "t", State: tube.Reserved})
	flush := groupOp(storage.Flush, "g3")
	flush.State = tube.Gone
	if n := do(s, flush).Count; n < 2 {
		t.Errorf("%d jobs of a group were flushed", n)
	}
	do(s, storage.Op{Kind: storage.Flush, Tube: "t", State: tube.Gone})
	keys := redis.Client(t).Keys(context.Background(), "*").Val()
	for _, key := range keys {
		if strings.Contains(key, "lane") || strings.Contains(key, "eligible") || strings.Contains(key, "group-") || strings.HasSuffix(key, "limited") {
			t.Errorf("%s is left", key)
		}
	}
}
