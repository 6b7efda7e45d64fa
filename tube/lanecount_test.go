package tube

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// groupPolicies are policies with limits; the first is none.
var groupPolicies = []*Policy{
	nil,
	{GroupLimits: Limits{Concurrency: 2}},
	{GroupOrder: Strict},
	{GroupLimits: Limits{Rates: Rates{3}}, Limits: Limits{Concurrency: 4}},
	{Limits: Limits{Rates: Rates{5, 20}}},
	{GroupLimits: Limits{Concurrency: 1}, Push: Push{Rate: 4, RateEvery: time.Second}},
}

// TestLimitStats: after any operations the figures about groups and limits are those that follow from
// the stats of all jobs and groups.
func TestLimitStats(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m, now := NewMachine(), Instant(time.Hour)
		for range 400 {
			randomGroupStep(m, &now, rnd)
			for m.Tick(now, 1000) <= 0 {
			}
			m.check(t)
			for i := range 2 {
				m.checkLimitStats(t, now, fmt.Sprint("t", i))
			}
		}
	}
}

func randomGroupStep(m *Machine, now *Instant, rnd *rand.Rand) {
	name, holder := fmt.Sprint("t", rnd.IntN(2)), Holder(rnd.IntN(3)+1)
	group, id := []string{"", "a", "b", "c", fmt.Sprint(rnd.IntN(20))}[rnd.IntN(5)], uint64(rnd.IntN(int(m.lastID)+2))
	switch rnd.IntN(12) {
	case 0, 1, 2, 3:
		m.PutTagged(*now, NewJob{Tube: name, Pri: uint32(rnd.IntN(2)), Delay: uint32(rnd.IntN(2)), TTR: 5}, &Tags{Group: group})
	case 4, 5, 6:
		m.Take(*now, holder, []string{"t0", "t1"}[rnd.IntN(2):])
	case 7:
		m.Move(*now, []Move{Delete, Release, Bury, ReserveJob}[rnd.IntN(4)], holder, id, Terms{Delay: uint32(rnd.IntN(3))})
	case 8:
		*now += Instant(time.Duration(rnd.IntN(2000)) * time.Millisecond)
	case 9:
		if group != "" {
			m.PauseGroup(*now, name, group, uint32(rnd.IntN(3)))
		}
	case 10:
		if group != "" {
			m.SetGroup(*now, name, group, &GroupConfig{Limits: Limits{Concurrency: uint32(rnd.IntN(3))}, Weight: 1})
		}
	case 11:
		if rnd.IntN(4) == 0 {
			m.SetPolicy(name, groupPolicies[rnd.IntN(len(groupPolicies))])
		} else {
			m.ReleaseAll(*now, holder)
		}
	}
}

// checkLimitStats compares the figures with the stats of all jobs and groups.
func (m *Machine) checkLimitStats(t *testing.T, now Instant, name string) {
	t.Helper()
	got := m.LimitStats(name)
	groups := m.listGroups(now, name, "", MaxListed, 1<<20)
	var want LimitStats
	for _, g := range groups {
		if g.Ready+g.Delayed+g.Reserved+g.Buried > 0 {
			want.Groups++
		}
		if most := g.Concurrency; g.Reserved > 0 {
			want.Busiest = append(want.Busiest, GroupCount{g.Name, g.Reserved})
			if p := m.policyOf(name); p != nil && p.GroupOrder == Strict {
				most = 1
			}
			if most > 0 && g.Reserved >= uint64(most) {
				want.Full++
			}
		}
	}
	for id := range m.lastID + 1 {
		if s, found := m.JobStats(now, id); found && s.Tube == name && s.Held != NotHeld {
			want.Held[s.Held]++
		}
	}
	if tb := m.tubes[name]; tb == nil || tb.lanes == nil && *m.policies.limitsOf(tb) == (Limits{}) {
		if got != nil {
			t.Fatalf("a tube without groups and limits has %+v", got)
		}
		return
	}
	slices.SortFunc(want.Busiest, GroupCount.compare)
	want.Busiest = want.Busiest[:min(len(want.Busiest), MaxBusiest)]
	if got == nil || got.Held != want.Held || got.Groups != want.Groups || got.Full != want.Full || !slices.Equal(got.Busiest, want.Busiest) {
		t.Fatalf("%s: %+v, want %+v", name, got, want)
	}
}

// TestHolds: each time that ready jobs begin to be held counts once.
func TestHolds(t *testing.T) {
	m, now := NewMachine(), Instant(time.Hour)
	m.SetPolicy("t", &Policy{GroupLimits: Limits{Concurrency: 1}, Limits: Limits{Concurrency: 3}})
	for i := range 9 {
		m.PutTagged(now, NewJob{Tube: "t", TTR: 60}, &Tags{Group: fmt.Sprint(i % 3)})
	}
	holds := func(want uint64) {
		t.Helper()
		if got := m.tubes["t"].flow.Holds; got != want {
			t.Fatalf("%d holds, want %d", got, want)
		}
	}
	holds(0)
	first, _ := m.Take(now, 1, []string{"t"})
	holds(1)
	m.Take(now, 1, []string{"t"})
	m.Take(now, 1, []string{"t"})
	holds(3) // nothing is left for the limit of the tube to hold
	m.PauseGroup(now, "t", "0", 5)
	holds(3)
	m.PauseGroup(now, "t", "0", 0)
	m.Put(now, NewJob{Tube: "t", TTR: 60})
	m.Put(now, NewJob{Tube: "t", TTR: 60})
	holds(4)
	m.Move(now, Delete, 1, first.ID, Terms{})
	m.Take(now, 1, []string{"t"}) // group 0, and the tube
	holds(6)
}
