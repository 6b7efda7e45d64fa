package redis

import "redstalk/tube"

// attendance counts the connections of this instance that use and watch each
// tube. Redis keeps a copy for the other instances: at once when a tube gets
// its first or loses its last connection here, which decides whether it
// exists, and otherwise with the next sign of life.
type attendance map[string]*attendants

type attendants struct {
	using, watching int
	told            [3]int // using, watching and waiting as Redis knows them
}

// count adds delta connections and returns whether Redis must be told now.
func (a attendance) count(name string, role tube.Role, delta int) bool {
	at := a[name]
	if at == nil {
		if delta <= 0 {
			return false
		}
		at = &attendants{}
		a[name] = at
	}
	before := at.using + at.watching
	if role == tube.Using {
		at.using += delta
	} else {
		at.watching += delta
	}
	after := at.using + at.watching
	if after == 0 {
		delete(a, name)
	}
	return (before == 0) != (after == 0)
}

// now returns the present numbers at a tube, zeros if there are none.
func (a attendance) now(name string) (using, watching int) {
	if at := a[name]; at != nil {
		return at.using, at.watching
	}
	return 0, 0
}

// untold returns the tubes of whose numbers Redis knows others, or all.
func (a attendance) untold(waiting func(string) int, all bool) []string {
	var names []string
	for name, at := range a {
		is := [3]int{at.using, at.watching, 0}
		if at.watching > 0 {
			is[2] = waiting(name)
		}
		if all || is != at.told {
			names = append(names, name)
		}
	}
	return names
}

// tell notes that Redis is being told these numbers of a tube.
func (a attendance) tell(name string, waiting int) (using, watching int) {
	at := a[name]
	if at == nil {
		return 0, 0
	}
	at.told = [3]int{at.using, at.watching, waiting}
	return at.using, at.watching
}

// forget notes that it is not known what Redis knows, because a call failed:
// all is told anew with the next sign of life.
func (a attendance) forget() {
	for _, at := range a {
		at.told = [3]int{-1, -1, -1}
	}
}
