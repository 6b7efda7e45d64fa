package redis

import "redstalk/tube"

// attendance counts the connections of this instance that use and watch each
// tube. Redis keeps a copy for the other instances: at once when a tube gets
// its first or loses its last connection here, which decides whether it
// exists, and otherwise with the next sign of life.
type attendance struct {
	tubes map[string]*attendants
	owed  map[string]bool // Redis must be told whatever it was told last
}

func newAttendance() *attendance {
	return &attendance{tubes: make(map[string]*attendants), owed: make(map[string]bool)}
}

type attendants struct {
	using, watching int
	told            [3]int // using, watching and waiting as Redis knows them
}

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
func (a *attendance) now(name string) (using, watching int) {
	if at := a.tubes[name]; at != nil {
		return at.using, at.watching
	}
	return 0, 0
}

// known returns whether Redis knows that connections here attend a tube.
func (a *attendance) known(name string) bool {
	at := a.tubes[name]
	return at != nil && at.told[0]+at.told[1] > 0
}

// untold returns the tubes of whose numbers Redis knows others.
func (a *attendance) untold(waiting func(string) int) []string {
	var names []string
	for name := range a.owed {
		names = append(names, name)
	}
	for name, at := range a.tubes {
		is := [3]int{at.using, at.watching, 0}
		if at.watching > 0 {
			is[2] = waiting(name)
		}
		if is != at.told && !a.owed[name] {
			names = append(names, name)
		}
	}
	return names
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
	for name := range a.tubes {
		a.owe(name)
	}
}
