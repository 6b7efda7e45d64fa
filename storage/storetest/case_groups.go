package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// RunGroups runs only the cases about groups, limits and rates. It is for a store of two
// instances: jobs of odd holders are reserved by one of them, those of even holders by the other.
func RunGroups(t *testing.T, fresh func(testing.TB) *Engine) {
	for name, test := range cases {
		if strings.HasPrefix(name, "groups: ") || strings.HasPrefix(name, "rates: ") {
			t.Run(name, func(t *testing.T) { test(newHarness(t, fresh(t))) })
		}
	}
}

// putGroup puts a job of a group, or one without, with a TTR of 60 s.
func (b *harness) putGroup(name, group string, pri uint32) uint64 {
	b.Helper()
	return b.do(storage.Op{
		Kind: storage.Put, Tube: name, Pri: pri, TTR: 60, Body: []byte("body"), Args: &storage.Args{Tags: &tube.Tags{Group: group}},
	}).ID
}

// putGroups puts a job with priority 10 for each of these groups.
func (b *harness) putGroups(name string, groups ...string) (ids []uint64) {
	b.Helper()
	for part := range slices.Chunk(groups, 500) {
		ops := make([]storage.Op, len(part))
		for i, group := range part {
			ops[i] = storage.Op{Kind: storage.Put, Tube: name, Pri: 10, TTR: 60, Body: []byte("body"), Args: &storage.Args{Tags: &tube.Tags{Group: group}}}
		}
		b.batch(ops...)
		for i := range ops {
			ids = append(ids, ops[i].Answer.ID)
		}
	}
	return ids
}

// times returns a list of n times the same group.
func times(n int, group string) []string { return slices.Repeat([]string{group}, n) }

func (b *harness) aboutGroup(kind storage.Kind, name, group string, args storage.Args, delay uint32) storage.Answer {
	b.Helper()
	args.Group = group
	return b.do(storage.Op{Kind: kind, Tube: name, Delay: delay, Args: &args})
}

func (b *harness) setGroup(name, group string, config *tube.GroupConfig) {
	b.Helper()
	if b.aboutGroup(storage.SetGroup, name, group, storage.Args{GroupConfig: config}, 0).NotFound {
		b.Fatalf("setting group %s of %s: not found", group, name)
	}
}

// groupConfig returns what was set for a group, nil if nothing was.
func (b *harness) groupConfig(name, group string) *tube.GroupConfig {
	b.Helper()
	a := b.aboutGroup(storage.GetGroup, name, group, storage.Args{}, 0)
	if a.NotFound {
		return nil
	}
	return a.Result.GroupConfig
}

func (b *harness) pauseGroup(name, group string, seconds uint32) {
	b.Helper()
	if b.aboutGroup(storage.PauseGroup, name, group, storage.Args{}, seconds).NotFound {
		b.Fatalf("pausing group %s of %s: not found", group, name)
	}
}

// group returns the stats of a group, nil if there is none.
func (b *harness) group(name, group string) *tube.GroupStats {
	b.Helper()
	a := b.aboutGroup(storage.GroupStats, name, group, storage.Args{}, 0)
	if a.NotFound {
		return nil
	}
	if a.Result == nil || len(a.Result.Groups) != 1 || a.Result.Groups[0].Name != group {
		b.Fatalf("the stats of group %s of %s are %+v", group, name, a.Result)
	}
	return &a.Result.Groups[0]
}

// wantCounts checks how many jobs of a group are in each state.
func (b *harness) wantCounts(what, name, group string, ready, delayed, reserved, buried uint64) {
	b.Helper()
	s := b.group(name, group)
	if s == nil {
		s = &tube.GroupStats{}
	}
	if got, want := [4]uint64{s.Ready, s.Delayed, s.Reserved, s.Buried}, [4]uint64{ready, delayed, reserved, buried}; got != want {
		b.Errorf("%s: ready, delayed, reserved and buried jobs of group %q are %v, want %v", what, group, got, want)
	}
}

// wantHeld checks why ready jobs are held: in their stats and in lists.
func (b *harness) wantHeld(what string, why tube.Held, ids ...uint64) {
	b.Helper()
	for _, id := range ids {
		s := b.job(id)
		if s.State != tube.Ready || s.Held != why {
			b.Errorf("%s: job %d is %v, held %q, want %q", what, id, s.State, s.Held, why)
		}
		jobs, _ := b.list(s.Tube, tube.Ready, 1000, "")
		listed := slices.IndexFunc(jobs, func(j tube.JobStats) bool { return j.ID == id })
		if listed < 0 || jobs[listed].Held != why {
			b.Errorf("%s: job %d is not listed as held %q", what, id, why)
		}
		if s.Metadata == nil || s.Metadata.Group == "" {
			continue
		}
		if g := b.group(s.Tube, s.Metadata.Group); g == nil || g.Held != why {
			b.Errorf("%s: the group of job %d is %+v, want held %q", what, id, g, why)
		}
	}
}

// groupPolicy is a policy that allows n reserved jobs of each group.
func groupPolicy(n uint32) *tube.Policy {
	return &tube.Policy{GroupLimits: tube.Limits{Concurrency: n}}
}

// perMinute is a rate that is long enough for a store whose clock runs by itself.
func perMinute(n uint32) tube.Limits { return tube.Limits{Rates: tube.Rates{0, n, 0}} }

// testGroupLimits: limits are for each group of each tube; what is set for a group comes before the
// policy, tag by tag.
func testGroupLimits(b *harness) {
	b.setPolicy("t*", groupPolicy(1))
	b.setPolicy("t", &tube.Policy{GroupLimits: perMinute(100)})
	ids := b.putGroups("t", "g", "g", "h", "h", "h", "", "")
	other := b.putGroups("t2", "g")
	b.setGroup("t", "h", &tube.GroupConfig{Limits: tube.Limits{Concurrency: 2}, Weight: 7})
	for group, want := range map[string]tube.GroupStats{
		"g": {Name: "g", Ready: 2, Limits: tube.Limits{Concurrency: 1, Rates: tube.Rates{0, 100, 0}}, Weight: 1},
		"h": {Name: "h", Ready: 3, Limits: tube.Limits{Concurrency: 2, Rates: tube.Rates{0, 100, 0}}, Weight: 7},
	} {
		if s := b.group("t", group); s == nil || *s != want {
			b.Errorf("the stats are %+v, want %+v", s, want)
		}
	}
	taken := []uint64{}
	for id := b.take(1, "t"); id != 0; id = b.take(1, "t") {
		taken = append(taken, id)
	}
	slices.Sort(taken)
	if want := []uint64{ids[0], ids[2], ids[3], ids[5], ids[6]}; !slices.Equal(taken, want) {
		b.Errorf("took %v, want %v", taken, want)
	}
	b.wantTake(1, "t2", other...)
	b.wantHeld("at its limit", tube.HeldByConcurrency, ids[1], ids[4])
	b.setGroup("t", "g", &tube.GroupConfig{Limits: tube.Limits{Concurrency: 2}, Weight: 1})
	b.wantTake(1, "t", ids[1])
	b.must(tube.Delete, 1, ids[2])
	b.wantTake(1, "t", ids[4])
}

// testTubeLimits: the limits of a tube hold for all its jobs.
func testTubeLimits(b *harness) {
	b.setPolicy("t*", &tube.Policy{Limits: tube.Limits{Concurrency: 3}})
	ids := b.putGroups("t", "g", "", "h", "", "g")
	b.putGroups("t2", "g")
	b.wantHeld("below its limit", tube.NotHeld, ids...)
	for range 3 {
		if b.take(1, "t") == 0 {
			b.Fatal("took nothing below the limit")
		}
	}
	b.wantTake(1, "t")
	for _, id := range ids {
		if s := b.job(id); s.State == tube.Ready {
			b.wantHeld("tube at its limit", tube.HeldByConcurrency, id)
			if b.move(tube.ReserveJob, 1, id, 0, 0) {
				b.Error("reserve-job is above the limit of the tube")
			}
		}
	}
	if b.take(1, "t", "t2") == 0 {
		b.Error("took nothing from the other tube")
	}
	b.releaseAll(1)
	for range 3 {
		if b.take(2, "t") == 0 {
			b.Fatal("took nothing after all came back")
		}
	}
	b.wantTake(2, "t")
	b.reopens = false // totals are lost
	before := b.tube("t").Total
	b.put("t", 1) // while somebody waits
	if s := b.tube("t"); s.Total != before+1 || s.Ready != 3 || s.Deletes != 0 {
		b.Errorf("the tube is %+v", s)
	}
}

// testBlockedGroup: the jobs of one blocked group, whatever their priority, do not stop others.
func testBlockedGroup(b *harness) {
	blocks := map[string]func(){
		"concurrency": func() {
			b.setGroup("t", "g", &tube.GroupConfig{Limits: tube.Limits{Concurrency: 1}, Weight: 1})
			b.must(tube.ReserveJob, 9, b.putGroup("t", "g", 9))
		},
		"rate": func() {
			b.setGroup("t", "g", &tube.GroupConfig{Limits: perMinute(1), Weight: 1})
			id := b.putGroup("t", "g", 9)
			b.must(tube.ReserveJob, 9, id)
			b.must(tube.Delete, 9, id)
		},
		"paused": func() { b.pauseGroup("t", "g", 100) },
	}
	for name, block := range blocks {
		b.reopens = false // rates are lost
		block()
		blocked := []uint64{b.putGroup("t", "g", 0), b.putGroup("t", "g", 1)}
		low, plain, other := b.putGroup("t", "h", 7), b.put("t", 5), b.put("u", 6)
		if s := b.group("t", "g"); s.Held.String() != name {
			b.Errorf("%s: %+v", name, s)
		}
		if got := b.head("t", tube.Ready); got != plain {
			b.Errorf("%s: peek-ready finds %d, want %d", name, got, plain)
		}
		for _, want := range []uint64{plain, other, low, 0} {
			if got := b.take(1, "t", "u"); got != want {
				b.Errorf("%s: took %d, want %d", name, got, want)
			}
		}
		if got := b.head("t", tube.Ready); got != blocked[0] {
			b.Errorf("%s: if no job can be taken, peek-ready finds %d, want %d", name, got, blocked[0])
		}
		for _, name := range []string{"t", "u"} {
			b.flush(name, tube.Gone)
			b.flush(name, tube.Reserved)
		}
		b.setGroup("t", "g", nil)
		b.pauseGroup("t", "g", 0)
	}
}

// testHeldListed: jobs that wait for a limit stay ready, without a delivery, and say why.
func testHeldListed(b *harness) {
	b.reopens = false // rates are lost
	b.setPolicy("t", groupPolicy(1))
	ids := b.putGroups("t", "g", "g", "h", "")
	delayed := b.do(storage.Op{Kind: storage.Put, Tube: "t", Delay: 100, TTR: 60, Args: &storage.Args{Tags: &tube.Tags{Group: "g"}}}).ID
	b.wantHeld("before", tube.NotHeld, ids...)
	b.must(tube.ReserveJob, 1, ids[0])
	b.wantHeld("concurrency", tube.HeldByConcurrency, ids[1])
	b.wantHeld("others", tube.NotHeld, ids[2], ids[3])
	b.setGroup("t", "h", &tube.GroupConfig{Limits: perMinute(1), Weight: 1})
	b.must(tube.ReserveJob, 1, ids[2])
	b.must(tube.Release, 1, ids[2])
	b.wantHeld("rate", tube.HeldByRate, ids[2])
	b.setGroup("t", "g", &tube.GroupConfig{Limits: tube.Limits{Concurrency: 1, Rates: tube.Rates{0, 0, 1}}, Weight: 1})
	b.wantHeld("concurrency before rate", tube.HeldByConcurrency, ids[1])
	b.pauseGroup("t", "g", 100)
	b.wantHeld("pause before concurrency", tube.HeldByPause, ids[1])
	b.setPolicy("t", &tube.Policy{Limits: tube.Limits{Concurrency: 1}})
	b.wantHeld("the tube after the group", tube.HeldByPause, ids[1])
	b.wantHeld("the tube after the group", tube.HeldByRate, ids[2])
	b.wantHeld("the tube", tube.HeldByConcurrency, ids[3])
	b.wantTake(2, "t")
	if s := b.job(ids[1]); s.Counters != (tube.Counters{}) || b.job(delayed).Held != tube.NotHeld || b.job(ids[0]).Held != tube.NotHeld {
		b.Errorf("held: %+v", s)
	}
	if s := b.tube("t"); s.Ready != 3 || s.Reserved != 1 || s.Delayed != 1 {
		b.Errorf("the tube: %+v", s)
	}
	groups := b.listGroups("t", 10)
	if len(groups) != 2 || groups[0].Held != tube.HeldByPause || groups[1].Held != tube.HeldByRate || groups[0].PauseLeft == 0 {
		b.Errorf("the list of groups is %+v", groups)
	}
}

// listGroups lists the groups of a tube in pages.
func (b *harness) listGroups(name string, limit uint32) (groups []tube.GroupStats) {
	b.Helper()
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		a := b.do(storage.Op{Kind: storage.ListGroups, Tube: name, MaxJobs: limit, Args: &storage.Args{Cursor: cursor}})
		cursor = ""
		if a.Result != nil {
			groups, cursor = append(groups, a.Result.Groups...), a.Result.Cursor
			if n := len(a.Result.Groups); n > int(limit) || n < int(limit) && cursor != "" || pages > 2000 {
				b.Fatalf("page %d of %d has %d groups, and the cursor %q", pages, limit, n, cursor)
			}
		}
	}
	return groups
}

// testListGroups: groups with a job, a config or a pause are listed in the order of their names, in
// pages, and nothing is left of others.
func testListGroups(b *harness) {
	long := strings.Repeat("x", 128)
	names := []string{"%2e", "*", "A", "a b", "a:b\"c", "b", "b\\", "z", long, "ä"}
	slices.Sort(names)
	if got := b.listGroups("t", 3); len(got) != 0 || b.group("t", "b") != nil {
		b.Errorf("groups of nothing: %+v", got)
	}
	b.setGroup("t", long, &tube.GroupConfig{Weight: 2})
	b.pauseGroup("t", "z", 1000)
	b.putGroups("t", slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "z" || name == long })...)
	b.putGroups("t", "b", "")
	b.putGroups("t2", "other")
	for _, limit := range []uint32{1, 3, uint32(len(names)), 1000} {
		got := []string{}
		for _, s := range b.listGroups("t", limit) {
			if got = append(got, s.Name); !reflect.DeepEqual(*b.group("t", s.Name), s) && s.PauseLeft == 0 {
				b.Errorf("listed %+v", s)
			}
		}
		if !slices.Equal(got, names) {
			b.Errorf("pages of %d have %q, want %q", limit, got, names)
		}
	}
	b.setGroup("t", long, nil)
	b.pauseGroup("t", "z", 0)
	b.flush("t", tube.Gone)
	if got := b.listGroups("t", 100); len(got) != 0 || b.group("t", "z") != nil || b.group("t", long) != nil {
		b.Errorf("groups are left: %+v", got)
	}
	if id := b.putGroup("t", long, 1); b.job(id).Metadata.Group != long {
		b.Errorf("the group of a job: %+v", b.job(id).Metadata)
	}
}

// testGroupCounts: jobs with a group count as others do.
func testGroupCounts(b *harness) {
	b.ref(tube.Watching, 1, "t")
	before := b.totals()
	b.setPolicy("t", groupPolicy(1))
	ids := b.putGroups("t", times(6, "g")...)
	b.putGroup("t", "g", 2000)
	b.put("t", 1)
	b.do(storage.Op{Kind: storage.Put, Tube: "t", Delay: 100, Args: &storage.Args{Tags: &tube.Tags{Group: "g"}}})
	b.must(tube.ReserveJob, 1, ids[0])
	b.must(tube.Bury, 1, ids[0])
	b.must(tube.ReserveJob, 1, ids[1])
	b.must(tube.Delete, 1, ids[2])
	want := tube.TubeStats{Urgent: 4, Ready: 5, Reserved: 1, Delayed: 1, Buried: 1, Total: 9, Deletes: 1}
	s := b.tube("t")
	if got := (tube.TubeStats{Urgent: s.Urgent, Ready: s.Ready, Reserved: s.Reserved, Delayed: s.Delayed, Buried: s.Buried, Total: s.Total, Deletes: s.Deletes}); got != want {
		b.Errorf("the tube is %+v, want %+v", got, want)
	}
	totals := b.totals()
	if totals.Urgent != before.Urgent+4 || totals.Ready != before.Ready+5 || totals.Reserved != 1 || totals.Delayed != 1 || totals.Buried != 1 || totals.Jobs != before.Jobs+9 {
		b.Errorf("the totals are %+v, before %+v", totals, before)
	}
	b.wantCounts("all states", "t", "g", 4, 1, 1, 1)
	b.wantCounts("another group", "t", "h", 0, 0, 0, 0)
}

// testFlushGroup removes the jobs of one group that are not reserved.
func testFlushGroup(b *harness) {
	flush := func(group string) int {
		return b.do(storage.Op{Kind: storage.Flush, Tube: "t", State: tube.Gone, Args: &storage.Args{Group: group}}).Count
	}
	b.setPolicy("t", &tube.Policy{GroupLimits: tube.Limits{Concurrency: 2}, Rules: tube.Rules{HasKeyTTL: true, KeyTTL: time.Hour}})
	ids := b.putGroups("t", "g", "g", "g", "h", "", "g")
	b.do(storage.Op{Kind: storage.Put, Tube: "t", Delay: 100, Args: &storage.Args{Tags: &tube.Tags{Group: "g"}}})
	keyed := b.putNew("t", tube.Tags{Group: "g", Key: "k"})
	b.must(tube.ReserveJob, 1, ids[0])
	b.must(tube.Bury, 1, ids[0])
	b.must(tube.ReserveJob, 1, ids[1])
	if n := flush("nobody"); n != 0 {
		b.Errorf("%d jobs were flushed of a group that has none", n)
	}
	if n := flush("g"); n != 5 {
		b.Errorf("%d jobs were flushed, want 5", n)
	}
	b.wantCounts("flushed", "t", "g", 0, 0, 1, 0)
	b.wantPut("t", tube.Tags{Key: "k"}, tube.PutExisting, keyed, tube.Gone)
	if s := b.tube("t"); s.Deletes != 5 || s.Ready != 2 {
		b.Errorf("the tube: %+v", s)
	}
	b.must(tube.Release, 1, ids[1])
	if n := flush("g"); n != 1 || b.group("t", "g") != nil {
		b.Errorf("the last job: %d were flushed, %+v is left", n, b.group("t", "g"))
	}
	b.wantTake(1, "t", ids[3], ids[4])
}

// testGroupConfig sets, reads, replaces and removes what applies to a group.
func testGroupConfig(b *harness) {
	full := &tube.GroupConfig{Limits: tube.Limits{Concurrency: 1_000_000, Rates: tube.Rates{1, 1_000_000, 77}}, Weight: tube.MaxGroupWeight, TTL: 36500 * 24 * time.Hour}
	small := &tube.GroupConfig{Weight: 1, TTL: time.Millisecond * 1500}
	for _, group := range []string{"g", "a b\"\\ü"} {
		if got := b.groupConfig("t", group); got != nil {
			b.Errorf("before it was set: %+v", got)
		}
		b.setGroup("t", group, nil)
		for _, config := range []*tube.GroupConfig{full, small, full} {
			b.setGroup("t", group, config)
			if got := b.groupConfig("t", group); !reflect.DeepEqual(got, config) {
				b.Errorf("set %+v, read %+v", config, got)
			}
		}
		if b.groupConfig("t2", group) != nil || b.groupConfig("t", group+"x") != nil || fmt.Sprint(b.tubes()) != "[default]" {
			b.Error("others have it too, or the tube exists")
		}
		b.setGroup("t", group, nil)
		if b.groupConfig("t", group) != nil || b.group("t", group) != nil {
			b.Error("it was not removed")
		}
	}
}

// testGroupConfigForgotten: what is set for a group vanishes when the group had no job for a time.
func testGroupConfigForgotten(b *harness) {
	b.reopens = false // that would make it later
	config := &tube.GroupConfig{Weight: 3, TTL: 20 * time.Second}
	for _, group := range []string{"none", "delayed", "short", "for ever"} {
		b.setGroup("t", group, config)
	}
	b.setGroup("t", "for ever", &tube.GroupConfig{Weight: 3})
	want := func(when string, want ...string) {
		b.Helper()
		got := []string{}
		for _, group := range []string{"none", "delayed", "short", "for ever"} {
			if b.groupConfig("t", group) != nil {
				got = append(got, group)
			}
		}
		if !slices.Equal(got, want) {
			b.Errorf("%s there are the configs of %q, want %q", when, got, want)
		}
	}
	delayed := b.do(storage.Op{Kind: storage.Put, Tube: "t", Delay: 10_000, Args: &storage.Args{Tags: &tube.Tags{Group: "delayed"}}}).ID
	b.advance(15 * time.Second)
	want("15 s later", "none", "delayed", "short", "for ever")
	short := b.putGroup("t", "short", 1)
	b.must(tube.ReserveJob, 1, short)
	b.must(tube.Delete, 1, short)
	b.advance(6 * time.Second)
	want("21 s later", "delayed", "short", "for ever")
	b.advance(12 * time.Second)
	want("18 s after its job", "delayed", "short", "for ever")
	b.advance(20 * time.Second)
	b.advance(20 * time.Second)
	want("more than twice the time later", "delayed", "for ever")
	b.must(tube.Delete, 1, delayed)
	b.advance(15 * time.Second)
	want("15 s after the delayed job", "delayed", "for ever")
	b.advance(10 * time.Second)
	b.advance(20 * time.Second)
	want("at the end", "for ever")
}
