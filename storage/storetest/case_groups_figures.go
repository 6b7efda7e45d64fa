package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// limitStats returns the figures about groups and limits of the tube t.
func (b *harness) limitStats() *tube.LimitStats {
	b.Helper()
	return b.do(storage.Op{Kind: storage.TubeStats, Tube: "t", Info: true}).TubeStats.Limits
}

// wantLimitStats checks these figures.
func (b *harness) wantLimitStats(when string, want *tube.LimitStats) {
	b.Helper()
	if got := b.limitStats(); !reflect.DeepEqual(got, want) {
		b.Errorf("%s: %+v, want %+v", when, got, want)
	}
}

// testGroupFigures: stats of a tube show what holds its jobs, and which groups are busy.
func testGroupFigures(b *harness) {
	b.reopens = false
	b.ref(tube.Watching, 1, "t")
	b.put("t", 9)
	b.wantLimitStats("neither groups nor limits", nil)
	b.setPolicy("t", &tube.Policy{GroupLimits: tube.Limits{Concurrency: 2}})
	b.wantLimitStats("limits of groups, but no group", nil)
	b.setPolicy("t", &tube.Policy{Limits: tube.Limits{Concurrency: 50}, GroupLimits: tube.Limits{Concurrency: 2}})
	b.wantLimitStats("a limit of the tube", &tube.LimitStats{})
	b.setGroup("t", "rated", &tube.GroupConfig{Limits: tube.Limits{Rates: tube.Rates{0, 0, 1}}, Weight: 1, TTL: time.Hour})
	b.putGroups("t", "full", "full", "full", "full", "full", "paused", "rated", "rated", "rated", "alone", "free", "free", "waits")
	b.do(storage.Op{Kind: storage.Put, Tube: "t", Delay: 100, Args: &storage.Args{Tags: &tube.Tags{Group: "later"}}})
	b.do(storage.Op{Kind: storage.Put, Tube: "t", Delay: 100, Args: &storage.Args{Tags: &tube.Tags{Group: "alone"}}})
	b.pauseGroup("t", "paused", 100)
	for range 7 { // one of each lane but the paused one, then the second of full
		if b.take(1, "t") == 0 {
			b.Fatal("no job may start")
		}
	}
	want := tube.LimitStats{Groups: 7, Full: 1, Busiest: []tube.GroupCount{{Name: "full", Reserved: 2}, {Name: "alone", Reserved: 1}, {Name: "free", Reserved: 1}, {Name: "rated", Reserved: 1}, {Name: "waits", Reserved: 1}}}
	want.Held[tube.HeldByPause], want.Held[tube.HeldByConcurrency], want.Held[tube.HeldByRate] = 1, 3, 2
	b.wantLimitStats("each kind of hold", &want)
	b.setPolicy("t", &tube.Policy{Limits: tube.Limits{Concurrency: 3}})
	b.advance(time.Second)                              // so the lanes are looked at again
	want.Full, want.Held[tube.HeldByConcurrency] = 0, 4 // that of free, too
	b.wantLimitStats("a lower limit of the tube", &want)
	if s := b.tube("t"); s.Limits != nil {
		b.Errorf("figures that nobody asked for: %+v", s.Limits)
	}
}

// testBusiestGroups: the busiest groups are those with the most reserved jobs, then the first by name.
func testBusiestGroups(b *harness) {
	b.reopens = false
	groups := make([]string, 30)
	for i := range groups {
		groups[i] = fmt.Sprintf("g%02d", (i*7)%30)
	}
	b.putGroups("t", append(groups, "g17", "g20", "g20")...)
	b.batch(slices.Repeat([]storage.Op{{Kind: storage.Take, Holder: 1, Tubes: []string{"t"}}}, 33)...)
	want := []tube.GroupCount{{Name: "g20", Reserved: 3}, {Name: "g17", Reserved: 2}}
	for i := range tube.MaxBusiest - len(want) {
		want = append(want, tube.GroupCount{Name: fmt.Sprintf("g%02d", i), Reserved: 1})
	}
	b.wantLimitStats("all reserved", &tube.LimitStats{Groups: 30, Busiest: want})
}
