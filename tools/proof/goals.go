package main

import (
	"strings"
)

// goal is something to be reached by all runs of some parts together.
type goal struct {
	title  string
	parts  string // a part, or what the names of several begin with
	count  string // which of the counts; empty: how many of the kinds were there
	wanted int    // 0: there is no number to reach; for kinds: all that are known

	// atOnce: the largest run counts, and not all together.
	atOnce bool
}

// goals are what a release wants.
var goals = []goal{
	{title: "rounds of chaos, on all ways of running Redis", parts: "chaos", count: "rounds", wanted: 1000},
	{title: "… kinds of faults that happened in them", parts: "chaos"},
	{title: "commands compared with beanstalkd, engine in memory", parts: "differ-memory", count: "commands", wanted: 1_000_000},
	{title: "… engine on disk", parts: "differ-embedded", count: "commands", wanted: 1_000_000},
	{title: "… engine on Redis", parts: "differ-redis", count: "commands", wanted: 1_000_000},
	{title: "… two instances on one Redis", parts: "differ-two", count: "commands"},
	{title: "… 16 partitions on one Redis", parts: "differ-partitions", count: "commands"},
	{title: "… a cluster", parts: "differ-cluster", count: "commands"},
	{title: "commands beyond beanstalkd's, compared with the engine in memory", parts: "beyond", count: "commands"},
	{title: "kills of the server under load", parts: "crash", count: "kills", wanted: 1000},
	{title: "failing operations on files", parts: "disk", count: "faults"},
	{title: "power cuts", parts: "power", count: "power cuts"},
	{title: "clients that others wrote, on each server", parts: "clients"},
	{title: "executions of fuzzers", parts: "fuzz", count: "executions"},
	{title: "kinds of attacks", parts: "attack"},
	{title: "jobs moved at once from a beanstalkd at work", parts: "move-live", count: "jobs moved", wanted: 200_000, atOnce: true},
	{title: "jobs moved at once through a server in front of it", parts: "move-behind", count: "jobs moved", wanted: 200_000, atOnce: true},
}

// is returns whether a part belongs to a goal.
func (g goal) is(part string) bool { return part == g.parts || strings.HasPrefix(part, g.parts+"-") }

// standing is how far a goal is reached.
type standing struct {
	counted, wanted      int
	passed, failed, rest int // runs
}

// stand adds up the records of a goal. Only runs that passed count. Of runs of one part with the
// same seed the largest counts: the others have made the same choices.
func (g goal) stand(all []*record) standing {
	s := standing{wanted: g.wanted}
	bySeed, kinds := make(map[string]map[uint64]int), make(map[string]int)
	for _, r := range all {
		if !g.is(r.Part) {
			continue
		}
		for kind := range r.Kinds {
			kinds[kind] += 0
		}
		switch r.Result {
		case passedRun:
			s.passed++
		case failedRun:
			s.failed++
			continue
		default:
			s.rest++
			continue
		}
		for kind, n := range r.Kinds {
			kinds[kind] += n
		}
		if bySeed[r.Part] == nil {
			bySeed[r.Part] = make(map[uint64]int)
		}
		its := bySeed[r.Part]
		switch {
		case g.atOnce || r.Seed != 0:
			its[r.Seed] = max(its[r.Seed], r.Counts[g.count])
		default:
			its[0] += r.Counts[g.count]
		}
	}
	g.addUp(&s, bySeed, kinds)
	return s
}

// addUp makes a number of what was counted.
func (g goal) addUp(s *standing, bySeed map[string]map[uint64]int, kinds map[string]int) {
	if g.count == "" {
		s.wanted = len(kinds)
		for _, n := range kinds {
			s.counted += min(n, 1)
		}
		return
	}
	for _, its := range bySeed {
		for _, n := range its {
			s.counted += n
		}
	}
}
