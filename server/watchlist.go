package server

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// watchlist is the tubes that a connection watches, in beanstalkd's order: a new tube comes last, and
// the last one takes the position of one that is removed.
type watchlist struct {
	names   []string
	indexes map[string]int32  // by name; nil if there are few
	weights map[string]uint32 // of the tubes that were given one; nil if there are none

	// lent says that submitted operations refer to names. Names can be appended, but the
	// present ones must not be changed.
	lent bool
}

// manyWatched is from how many tubes on a map is used to find one.
const manyWatched = 32

func newWatchlist(name string) watchlist { return watchlist{names: []string{name}} }

func (l *watchlist) len() int { return len(l.names) }

// many reports whether the list is too long to be copied each time that a name is removed.
func (l *watchlist) many() bool { return len(l.names) > manyWatched }

// lend returns the names, for an operation.
func (l *watchlist) lend() []string {
	l.lent = true
	return slices.Clip(l.names)
}

// endLend says that no operation refers to the names any more.
func (l *watchlist) endLend() { l.lent = false }

// find returns the index of a name, -1 if it is not in the list.
func (l *watchlist) find(name []byte) int {
	if l.indexes == nil {
		return slices.IndexFunc(l.names, func(n string) bool { return n == string(name) })
	}
	if i, ok := l.indexes[string(name)]; ok {
		return int(i)
	}
	return -1
}

// add appends a name that is not in the list.
func (l *watchlist) add(name string) {
	l.names = append(l.names, name)
	if l.indexes != nil {
		l.indexes[name] = int32(len(l.names) - 1)
	} else if l.many() {
		l.reindex()
	}
}

// reindex builds the map of indexes again.
func (l *watchlist) reindex() {
	if l.indexes = nil; !l.many() {
		return
	}
	l.indexes = make(map[string]int32, len(l.names))
	for i, name := range l.names {
		l.indexes[name] = int32(i)
	}
}

// remove removes the name with index i. If the names are lent, it copies them first.
func (l *watchlist) remove(i int) {
	if l.lent {
		l.names, l.lent = slices.Clone(l.names), false
	}
	if delete(l.weights, l.names[i]); len(l.weights) == 0 {
		l.weights = nil
	}
	last := len(l.names) - 1
	if l.indexes != nil {
		delete(l.indexes, l.names[i])
		if i < last {
			l.indexes[l.names[last]] = int32(i)
		}
	}
	l.names[i] = l.names[last]
	l.names[last] = ""
	l.names = l.names[:last]
	l.shrink()
}

// hasWeights reports whether a tube has a weight. Then one without has the weight 1.
func (l *watchlist) hasWeights() bool { return l.weights != nil }

func (l *watchlist) setWeight(name string, weight uint32) {
	if l.weights == nil {
		l.weights = make(map[string]uint32)
	}
	l.weights[name] = weight
}

// shuffled returns watched tubes in a random order: of those that are left, each comes next with a
// probability that is proportional to its weight. So the tubes are sorted by the first events of
// Poisson processes whose rates are the weights.
func (l *watchlist) shuffled(names []string) []string {
	type entry struct {
		name string
		at   float64
	}
	all := make([]entry, len(names))
	for i, name := range names {
		all[i] = entry{name, rand.ExpFloat64() / float64(max(l.weights[name], 1))}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	order := make([]string, len(all))
	for i := range all {
		order[i] = all[i].name
	}
	return order
}

// shrink frees memory when little of it is used any more.
func (l *watchlist) shrink() {
	if n := len(l.names); cap(l.names) > 2*manyWatched && n < cap(l.names)/4 {
		l.names = append(make([]string, 0, 2*n), l.names...)
		l.reindex()
	}
}

// removeAll removes all names and returns them in the order in which beanstalkd removes them at the
// end of a connection: always the first one, whose position the last one takes.
func (l *watchlist) removeAll() []string {
	names := l.names
	if l.lent {
		names = slices.Clone(names)
	}
	*l = watchlist{}
	if len(names) > 0 {
		slices.Reverse(names[1:])
	}
	return names
}
