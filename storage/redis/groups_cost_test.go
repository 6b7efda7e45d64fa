package redis

import (
	"context"
	"fmt"
	"math"
	"testing"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// groupWorker is a storeWorker whose jobs are in many groups, by turns.
type groupWorker struct {
	storeWorker
	groups, next int
}

func (w *groupWorker) put(n int) {
	w.do(n, func() storage.Op {
		w.next++
		op := storage.Op{Kind: storage.Put, Tube: w.tube, Pri: 1024, TTR: 60, Body: costBody}
		op.Args = &storage.Args{Tags: &tube.Tags{Group: fmt.Sprint("customer-", w.next%w.groups)}}
		return op
	})
}

// taggedWorker is a storeWorker whose jobs have a tag but no group.
type taggedWorker struct{ storeWorker }

func (w *taggedWorker) put(n int) {
	w.do(n, func() storage.Op {
		op := storage.Op{Kind: storage.Put, Tube: w.tube, Pri: 1024, TTR: 60, Body: costBody}
		op.Args = &storage.Args{Tags: &tube.Tags{Rules: tube.Rules{Max: 5}}}
		return op
	})
}

// setPolicy sets the policy of a tube.
func setPolicy(s storage.Store, name string, p *tube.Policy) {
	storage.DoWait(s, []storage.Op{{Kind: storage.SetPolicy, Tube: name, Args: &storage.Args{Policy: p}}})
}

// BenchmarkGroups is BenchmarkCost for jobs in 10,000 groups, without limits and with one that does
// not bind, and for jobs with another tag.
//
//	go test ./storage/redis -run '^$' -bench Groups -benchtime 60000x
func BenchmarkGroups(b *testing.B) {
	for _, size := range []int{16, 256} {
		for _, mode := range []string{"put", "reserve", "delete", "cycle"} {
			for name, policy := range map[string]*tube.Policy{
				"groups": nil, "limit": {GroupLimits: tube.Limits{Concurrency: 100}},
				"rate": {GroupLimits: tube.Limits{Rates: tube.Rates{0, 1_000_000, 0}}},
			} {
				b.Run(fmt.Sprintf("%s/%s/%d", name, mode, size), func(b *testing.B) {
					server := redistest.Start(b)
					w := &groupWorker{storeWorker{store: openOn(b, server, "cost"), tube: "default"}, 10_000, 0}
					setPolicy(w.store, "default", policy)
					benchmarkCost(b, server, mode, size, w)
				})
			}
			b.Run(fmt.Sprintf("tag/%s/%d", mode, size), func(b *testing.B) {
				server := redistest.Start(b)
				benchmarkCost(b, server, mode, size, &taggedWorker{storeWorker{store: openOn(b, server, "cost"), tube: "default"}})
			})
		}
	}
}

// BenchmarkGroupMemory measures the memory that a group with one ready job of 128 bytes takes in
// Redis, beyond that of a job without a group.
//
//	go test ./storage/redis -run '^$' -bench GroupMemory -benchtime 100000x
func BenchmarkGroupMemory(b *testing.B) {
	plain := memoryOf(b, func(w storeWorker) worker { return &w })
	grouped := memoryOf(b, func(w storeWorker) worker { return &groupWorker{w, 1 << 30, 0} })
	b.ReportMetric(plain/float64(b.N), "B/job")
	b.ReportMetric((grouped-plain)/float64(b.N), "B/group")
	b.ReportMetric(0, "ns/op")
}

// memoryOf returns how many bytes b.N jobs take that a worker puts, 64 at a time.
func memoryOf(b *testing.B, workerOf func(storeWorker) worker) float64 {
	server := redistest.Start(b)
	client := server.Client(b)
	w := workerOf(storeWorker{store: openOn(b, server, "cost"), tube: "default"})
	w.put(1)
	before := used(b, client, "used_memory")
	for left := b.N; left > 0; left -= 64 {
		w.put(min(left, 64))
	}
	return used(b, client, "used_memory") - before
}

// TestTakeBehindBlockedJobs: jobs of groups that are held cost a take nothing, however many they are.
func TestTakeBehindBlockedJobs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openWith(t, Options{URL: server.URL(), Timeout: patient})
	setPolicy(s, "t", &tube.Policy{GroupLimits: tube.Limits{Concurrency: 1}})
	ops := make([]storage.Op, 0, 500)
	for n := range 50_000 {
		group := fmt.Sprint("g", n%5)
		ops = append(ops, storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Args: &storage.Args{Tags: &tube.Tags{Group: group}}})
		if len(ops) == cap(ops) {
			storage.DoWait(s, ops)
			ops = ops[:0]
		}
	}
	for range 5 {
		if a := do(s, take(1)); a.NotFound || a.Err != nil {
			t.Fatalf("no job of a group without reserved ones: %+v", a)
		}
	}
	free := do(s, storage.Op{Kind: storage.Put, Tube: "t", Pri: 7, TTR: 600, Args: &storage.Args{Tags: &tube.Tags{Group: "free"}}}).ID
	most := mostCommands(t, server, func() {
		if a := do(s, take(1)); a.ID != free {
			t.Errorf("took job %d, want %d", a.ID, free)
		}
	})
	if most > 40 {
		t.Errorf("the take makes %d calls", most)
	}
	fastest := int64(math.MaxInt64) // in microseconds: others keep the machine busy
	for range 10 {
		do(s, storage.Op{Kind: storage.Move, Move: tube.Release, Holder: 1, ID: free, Pri: 7})
		before := commandStat(t, server, "evalsha", "usec")
		do(s, take(1))
		fastest = min(fastest, commandStat(t, server, "evalsha", "usec")-before)
	}
	if fastest > 5000 {
		t.Errorf("the take takes %d µs", fastest)
	}
	if n := server.Client(t).Exists(context.Background(), "redstalk:{0}:eligible:t").Val(); n != 0 {
		t.Error("groups that are held are in the index")
	}
}

// putGroups puts jobs into the groups g0, g1, … of tube t, one into each.
func putGroups(t *testing.T, s *Store, groups int) {
	t.Helper()
	for from := 0; from < groups; from += 500 {
		ops := make([]storage.Op, min(500, groups-from))
		for n := range ops {
			ops[n] = storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Args: &storage.Args{Tags: &tube.Tags{Group: fmt.Sprint("g", from+n)}}}
		}
		storage.DoWait(s, ops)
		for n := range ops {
			if err := ops[n].Answer.Err; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// countTaken takes jobs until there are none, and returns how many.
func countTaken(t *testing.T, s *Store) (n int) {
	t.Helper()
	for {
		ops := make([]storage.Op, 100)
		for i := range ops {
			ops[i] = take(1)
		}
		storage.DoWait(s, ops)
		for i := range ops {
			if err := ops[i].Answer.Err; err != nil {
				t.Fatal(err)
			}
			if ops[i].Answer.NotFound {
				return n
			}
			n++
		}
	}
}

// TestTakeAfterPolicyChange: a take that follows a change of the policy costs no more with many groups.
func TestTakeAfterPolicyChange(t *testing.T) {
	t.Parallel()
	groups, n := 6000, 0
	if testing.Short() {
		groups = 1500
	}
	rate := func(n uint32) *tube.Policy { return &tube.Policy{GroupLimits: tube.Limits{Rates: tube.Rates{n}}} }
	for name, c := range map[string]struct {
		before, after *tube.Policy
		jobs          int // in each group
		taken         int // before the change
		left          int // to be taken after it
		most          int // commands of a call, which looks at 1000 groups
	}{
		"jobs alone in their groups get a rate": {&tube.Policy{GroupLimits: tube.Limits{Concurrency: 1}}, rate(1_000_000), 1, 0, groups, 7500},
		"a lower limit, which all groups reach": {&tube.Policy{GroupLimits: tube.Limits{Concurrency: 2}}, &tube.Policy{GroupLimits: tube.Limits{Concurrency: 1}}, 2, groups, 0, 3500},
	} {
		if n++; !inThisHalf(n) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			s := openWith(t, Options{URL: server.URL(), Timeout: patient})
			setPolicy(s, "t", c.before)
			for range c.jobs {
				putGroups(t, s, groups)
			}
			for range c.taken {
				do(s, take(1))
			}
			calls := mostCommands(t, server, func() {
				setPolicy(s, "t", c.after)
				if a := do(s, take(1)); a.Err != nil || a.NotFound != (c.left == 0) {
					t.Errorf("the take: %+v", a)
				}
			})
			if calls > c.most {
				t.Errorf("a call of the script makes %d commands", calls)
			}
			if n := countTaken(t, s); c.left > 0 && n != c.left-1 || c.left == 0 && n > 0 {
				t.Errorf("%d further jobs are taken", n)
			}
			if _, wrong := checkAt(t, server.URL(), false); len(wrong) > 0 {
				t.Errorf("%q", wrong[:min(len(wrong), 3)])
			}
		})
	}
}
