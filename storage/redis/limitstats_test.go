package redis

import (
	"fmt"
	"reflect"
	"testing"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// tubeInfo asks for the stats of a tube, with its figures about groups and limits.
func tubeInfo(name string) storage.Op {
	return storage.Op{Kind: storage.TubeStats, Tube: name, Info: true}
}

// inSteps carries out operations, some hundred together.
func inSteps(t testing.TB, s *Store, n int, op func(n int) storage.Op) {
	t.Helper()
	for from := 0; from < n; from += 250 {
		var ops []storage.Op
		for k := range min(250, n-from) {
			ops = append(ops, op(from+k))
		}
		storage.DoWait(s, ops)
		for i := range ops {
			if a := &ops[i].Answer; a.Err != nil || a.NotFound {
				t.Fatalf("%d: %+v", from+i, a)
			}
		}
	}
}

// putPri puts a job of a group with a priority into a tube.
func putPri(name, group string, pri uint32) storage.Op {
	op := putGroup(group)
	op.Tube, op.Pri = name, pri
	return op
}

// fillManyGroups fills a tube with many groups of each sort: 2,000 with two jobs, of which one is reserved
// at limit 1; 1,000 of these with more of them ready; 700 with only delayed jobs; and 3,000 with a
// lone job, of which 1,200 are reserved, if lone ones are wanted with priorities the last 600 to be put.
func fillManyGroups(t *testing.T, s *Store, name string, priorities bool) {
	setPolicy(s, name, groupLimit(1))
	inSteps(t, s, 4000, func(n int) storage.Op { return putPri(name, fmt.Sprintf("two%04d", n/2), 10) })
	inSteps(t, s, 2000, func(int) storage.Op { return takeFrom(1, false, name) })
	inSteps(t, s, 1000, func(n int) storage.Op { return putPri(name, fmt.Sprintf("two%04d", n), 10) })
	inSteps(t, s, 700, func(n int) storage.Op {
		op := putPri(name, fmt.Sprintf("later%04d", n), 10)
		op.Delay = 1000
		return op
	})
	inSteps(t, s, 3000, func(n int) storage.Op {
		if priorities && n >= 2400 {
			return putPri(name, fmt.Sprintf("lone%04d", n), 3)
		}
		return putPri(name, fmt.Sprintf("lone%04d", n), 10)
	})
	inSteps(t, s, 1200, func(int) storage.Op { return takeFrom(1, false, name) })
}

// TestLimitStatsInSteps: the figures of a tube with many groups come from several calls, none of which is
// long, on each of two instances, and in one batch with others.
func TestLimitStatsInSteps(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := openWith(t, Options{URL: server.URL(), Timeout: patient}), openWith(t, Options{URL: server.URL(), Timeout: patient})
	fillManyGroups(t, a, "t", false)
	fillManyGroups(t, b, "u", true)
	do(a, storage.Op{Kind: storage.Put, Tube: "plain", TTR: 600})
	want := map[string]*tube.LimitStats{}
	for _, name := range []string{"t", "u"} {
		l := &tube.LimitStats{Groups: 5700, Full: 3200}
		l.Held[tube.HeldByConcurrency] = 3000
		for n := range tube.MaxBusiest {
			l.Busiest = append(l.Busiest, tube.GroupCount{Name: fmt.Sprintf("lone%04d", n), Reserved: 1})
		}
		want[name] = l
	}
	for _, s := range []*Store{a, b} {
		ops := []storage.Op{tubeInfo("t"), tubeInfo("nowhere"), tubeInfo("plain"), tubeInfo("u"), {Kind: storage.TubeStats, Tube: "t"}}
		calls := scriptCalls(t, server)
		most := mostCommands(t, server, func() { storage.DoWait(s, ops) })
		if most > 4000 {
			t.Errorf("one call makes %d calls of Redis", most)
		}
		if n := scriptCalls(t, server) - calls; n < 5 || n > 60 {
			t.Errorf("%d calls", n)
		}
		for i, name := range map[int]string{0: "t", 3: "u"} {
			st := ops[i].Answer.TubeStats
			if st == nil || st.Limits == nil || st.Reserved != 3200 || st.Ready != 4800 || !reflect.DeepEqual(st.Limits, want[name]) {
				t.Errorf("%s: %+v with %+v, want %+v", name, st, st.Limits, want[name])
			}
		}
		if !ops[1].Answer.NotFound || ops[2].Answer.TubeStats.Limits != nil || ops[4].Answer.TubeStats.Limits != nil {
			t.Errorf("%+v", ops)
		}
	}
}

// TestBusiestOfFewGroups: reserved lone jobs are found among ready ones, also if they came later or earlier
// than these; none is missing because another one is found twice.
func TestBusiestOfFewGroups(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	inSteps(t, s, 15, func(n int) storage.Op { return putPri("t", fmt.Sprintf("b%02d", n), 10) })
	inSteps(t, s, 5, func(n int) storage.Op { return putPri("t", fmt.Sprintf("a%02d", n), 3) })
	inSteps(t, s, 12, func(int) storage.Op { return take(1) })
	calls := scriptCalls(t, server)
	got := do(s, tubeInfo("t")).TubeStats.Limits
	want := &tube.LimitStats{Groups: 20}
	for _, name := range []string{"a00", "a01", "a02", "a03", "a04", "b00", "b01", "b02", "b03", "b04"} {
		want.Busiest = append(want.Busiest, tube.GroupCount{Name: name, Reserved: 1})
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := scriptCalls(t, server) - calls; n != 1 {
		t.Errorf("%d calls", n)
	}
}

// TestLimitStatsCost: the figures cost a tube without groups next to nothing, and one with groups of lone
// jobs that is not much more than stats without them.
func TestLimitStatsCost(t *testing.T) {
	server := redistest.Start(t)
	s := openWith(t, Options{URL: server.URL(), Timeout: patient})
	do(s, storage.Op{Kind: storage.Put, Tube: "plain", TTR: 600})
	cost := func(op storage.Op) int {
		return mostCommands(t, server, func() {
			if a := do(s, op); a.Err != nil || a.NotFound {
				t.Fatalf("%+v", a)
			}
		})
	}
	without := cost(storage.Op{Kind: storage.TubeStats, Tube: "plain"})
	if with := cost(tubeInfo("plain")); with != without {
		t.Errorf("%d commands where nobody has groups, %d without figures", with, without)
	}
	putLone(s, "lone", 0, 400)
	if with := cost(tubeInfo("plain")); with > without+3 {
		t.Errorf("%d commands for a tube without groups, %d without figures", with, without)
	}
	inSteps(t, s, 100, func(int) storage.Op { return takeFrom(1, false, "lone") })
	none := cost(storage.Op{Kind: storage.TubeStats, Tube: "lone"})
	if with := cost(tubeInfo("lone")); with > none+30 {
		t.Errorf("%d commands for 400 groups with lone jobs, %d without figures", with, none)
	}
}

// TestListGroupsCost: a page of groups takes few commands for each of them.
func TestListGroupsCost(t *testing.T) {
	for _, tc := range []struct {
		what      string
		jobs, max int // of each group, and commands
	}{{"lone", 1, 4}, {"ordinary", 2, 8}} {
		server := redistest.Start(t)
		s := openWith(t, Options{URL: server.URL(), Timeout: patient})
		const groups = 200
		inSteps(t, s, tc.jobs*groups, func(n int) storage.Op { return putPri("t", fmt.Sprintf("g%03d", n%groups), uint32(n)) })
		var got storage.Answer
		most := mostCommands(t, server, func() {
			got = do(s, storage.Op{Kind: storage.ListGroups, Tube: "t", MaxJobs: groups})
		})
		if got.Err != nil || len(got.Result.Groups) != groups || got.Result.Groups[7].Ready != uint64(tc.jobs) {
			t.Fatalf("%s: %+v", tc.what, got)
		}
		if most > groups*tc.max+20 {
			t.Errorf("%s: %d commands", tc.what, most)
		}
	}
}

// BenchmarkLimitStats measures the figures of a tube with b.N groups: with a lone job each, of which 1,000 are
// reserved, without and with several priorities; with two jobs each, of which none, and with a limit one, are reserved;
// and with a delayed job each. It reports Redis' time for all calls, and that of the mean one.
//
//	go test ./storage/redis -run '^$' -bench LimitStats -benchtime 100000x
func BenchmarkLimitStats(b *testing.B) {
	for _, sort := range []string{"lone", "priorities", "ready", "held", "delayed"} {
		b.Run(sort, func(b *testing.B) {
			server := redistest.Start(b)
			s := openOn(b, server, "cost")
			fillForFigures(b, s, sort)
			calls, busy := scriptCalls(b, server), commandStat(b, server, "evalsha", "usec")
			ops := []storage.Op{tubeInfo("t")}
			storage.DoWait(s, ops)
			calls, busy = scriptCalls(b, server)-calls, commandStat(b, server, "evalsha", "usec")-busy
			b.Logf("%+v", ops[0].Answer.TubeStats.Limits)
			b.ReportMetric(float64(busy)/1000, "redis-ms")
			b.ReportMetric(float64(busy)/float64(calls), "redis-µs/call")
			b.ReportMetric(float64(calls), "calls")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// fillForFigures fills the tube t for BenchmarkLimitStats.
func fillForFigures(b *testing.B, s *Store, sort string) {
	jobs, takes := b.N, 0
	switch sort {
	case "lone", "priorities":
		takes = min(b.N, 1000)
	case "ready", "held":
		jobs = 2 * b.N
	}
	if sort == "held" {
		setPolicy(s, "t", groupLimit(1))
		takes = b.N
	}
	inSteps(b, s, jobs, func(n int) storage.Op {
		op := putPri("t", fmt.Sprintf("customer-%06d", n%b.N), 10)
		if sort == "delayed" {
			op.Delay = 1000
		}
		if sort == "priorities" {
			op.Pri += uint32(n % 3)
		}
		return op
	})
	inSteps(b, s, takes, func(int) storage.Op { return take(1) })
}
