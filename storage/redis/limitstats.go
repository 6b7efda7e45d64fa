package redis

import (
	"cmp"
	"slices"

	"redstalk/storage"
	"redstalk/tube"
)

// Figures about the groups and limits of tubes, which TubeStats answers with Info. Redis counts them in
// steps, see lua/groups/figures.lua: an operation whose figures are not complete is requested again.

// limitProgress is what is known of a tube whose figures are not complete.
type limitProgress struct {
	stats  *tube.TubeStats // nil if there is no such tube
	cursor string          // with which Redis continues
	sum    tube.LimitStats
}

// several returns how many of the busiest groups have several reserved jobs. If all have, others with
// only one need not be found.
func (l *limitProgress) several() (n int) {
	for _, g := range l.sum.Busiest {
		if g.Reserved > 1 {
			n++
		}
	}
	return n
}

// encodeLimitStats requests the next part of the figures of tubes.
func encodeLimitStats(c *call, u *unit, ops []*storage.Op) {
	c.words("limit-stats", len(ops))
	for _, op := range ops {
		l := u.many.limits[op]
		if l == nil {
			l = &limitProgress{}
		}
		c.words(&op.Tube, l.cursor, l.several())
	}
	c.expect(readLimitStats(u), ops...)
}

// readLimitStats reads a part of the figures of tubes, whose other stats were read before.
func readLimitStats(u *unit) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		for _, op := range ops {
			l := u.many.limits[op]
			if l == nil {
				l = &limitProgress{stats: op.Answer.TubeStats}
			}
			op.Answer.TubeStats, op.Answer.NotFound = l.stats, l.stats == nil
			if !r.found() {
				continue
			}
			whole := l.read(r)
			switch {
			case r.err != nil || l.stats == nil:
			case l.cursor == "":
				l.stats.Limits = l.complete(whole)
			default:
				u.many.keepLimits(op, l)
				r.cutOff([]*storage.Op{op})
			}
		}
	}
}

// keepLimits notes that the figures of an operation are not complete.
func (m *manyProgress) keepLimits(op *storage.Op, l *limitProgress) {
	if m.limits == nil {
		m.limits = make(map[*storage.Op]*limitProgress)
	}
	m.limits[op] = l
}

// read adds a part of the figures, and returns what holds all jobs of the tube.
func (l *limitProgress) read(r *reply) tube.Held {
	l.cursor = r.text()
	for held := tube.NotHeld + 1; held <= tube.HeldByRate; held++ {
		l.sum.Held[held] += r.count()
	}
	whole := tube.Held(r.int64())
	if whole > tube.LastHeld {
		r.err, whole = errReply, tube.NotHeld
	}
	l.sum.Groups += r.count()
	l.sum.Full += r.count()
	for range r.int64() {
		l.addBusy(tube.GroupCount{Name: r.text(), Reserved: r.count()})
	}
	return whole
}

// addBusy adds a group to the busiest ones. It can come twice.
func (l *limitProgress) addBusy(g tube.GroupCount) {
	s := &l.sum
	if slices.ContainsFunc(s.Busiest, func(other tube.GroupCount) bool { return other.Name == g.Name }) {
		return
	}
	at, _ := slices.BinarySearchFunc(s.Busiest, g, func(a, b tube.GroupCount) int {
		return cmp.Or(cmp.Compare(b.Reserved, a.Reserved), cmp.Compare(a.Name, b.Name))
	})
	s.Busiest = slices.Insert(s.Busiest, at, g)
	s.Busiest = s.Busiest[:min(len(s.Busiest), tube.MaxBusiest)]
}

// complete returns the figures. What holds the whole tube holds the ready jobs that their lanes do not.
func (l *limitProgress) complete(whole tube.Held) *tube.LimitStats {
	if whole != tube.NotHeld {
		free := l.stats.Ready
		for _, n := range l.sum.Held {
			free -= min(free, n)
		}
		l.sum.Held[whole] += free
	}
	return &l.sum
}
