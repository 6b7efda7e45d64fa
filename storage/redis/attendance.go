package redis

import (
	"maps"
	"slices"

	"redstalk/tube"
)

// attendance counts the connections of this instance that use and watch each
// tube. Redis keeps a copy for the other instances: at once when a tube gets
// its first or loses its last connection here, which decides whether it
// exists, and otherwise with the next heartbeat.
//
// A heartbeat looks at maxReviewed tubes at most, and as few as maxTold are told of in
// one call: where there are more, the numbers that others see are older.
//
// It belongs to the caller of the partition.
type attendance struct {
	tubes  map[string]*attendants
	owed   map[string]bool // Redis must be told whatever it was told last
	unseen []string        // of the tubes, those that the next heartbeats look at
	untold []string        // of which Redis is to be told
}

// maxReviewed bounds at how many tubes one heartbeat looks.
const maxReviewed = 10_000

func newAttendance() *attendance {
	return &attendance{tubes: make(map[string]*attendants), owed: make(map[string]bool)}
}

type attendants struct {
	attending
	told [3]int // using, watching and waiting as Redis knows them
}

// attending is how many connections of this instance use and watch a tube.
type attending struct{ using, watching int }

// count adds delta connections and returns whether Redis must be told now.
func (a *attendance) count(name string, role tube.Role, delta int) bool {
	at := a.tubes[name]
	if at == nil {
		if delta <= 0 {
			return false
		}
		at = &attendants{}
		a.tubes[name] = at
	}
	before := at.using + at.watching
	if role == tube.Using {
		at.using += delta
	} else {
		at.watching += delta
	}
	after := at.using + at.watching
	if after == 0 {
		delete(a.tubes, name)
	}
	return (before == 0) != (after == 0)
}

// now returns the present numbers at a tube, zeros if there are none.
func (a *attendance) now(name string) attending {
	if at := a.tubes[name]; at != nil {
		return at.attending
	}
	return attending{}
}

// known returns whether Redis knows that connections here attend a tube.
func (a *attendance) known(name string) bool {
	at := a.tubes[name]
	return at != nil && at.told[0]+at.told[1] > 0
}

// review finds the tubes of whose numbers Redis knows others, unless what it found
// last is not all told yet.
func (a *attendance) review(waiting func(string) int) {
	if len(a.untold) > 0 {
		return
	}
	for name := range a.owed {
		a.untold = append(a.untold, name)
	}
	if len(a.unseen) == 0 {
		a.unseen = slices.Collect(maps.Keys(a.tubes))
	}
	n := min(len(a.unseen), maxReviewed)
	for _, name := range a.unseen[:n] {
		if at := a.tubes[name]; at != nil && !a.owed[name] && a.numbers(name, waiting) != at.told {
			a.untold = append(a.untold, name)
		}
	}
	a.unseen = a.unseen[n:]
}

// next returns up to n of the tubes that review has found.
func (a *attendance) next(n int) []string {
	n = min(n, len(a.untold))
	names := a.untold[:n:n]
	a.untold = a.untold[n:]
	return names
}

// numbers is how many connections use and watch a tube, and wait for it.
func (a *attendance) numbers(name string, waiting func(string) int) (is [3]int) {
	if at := a.tubes[name]; at != nil {
		is = [3]int{at.using, at.watching, 0}
		if at.watching > 0 {
			is[2] = waiting(name)
		}
	}
	return is
}

// tell notes that Redis is being told these numbers of a tube.
func (a *attendance) tell(name string, waiting int) (using, watching int) {
	delete(a.owed, name)
	at := a.tubes[name]
	if at == nil {
		return 0, 0
	}
	at.told = [3]int{at.using, at.watching, waiting}
	return at.using, at.watching
}

// owe notes that Redis must be told of a tube, because it was not when it
// should have been.
func (a *attendance) owe(name string) {
	a.owed[name] = true
	if at := a.tubes[name]; at != nil {
		at.told = [3]int{}
	}
}

// oweAll notes that Redis knows nothing of this instance.
func (a *attendance) oweAll() {
	clear(a.owed) // tubes that are not attended need not be told
	a.untold = nil
	for name := range a.tubes {
		a.owe(name)
	}
}
