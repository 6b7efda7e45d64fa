package redis

import (
	"slices"
	"strconv"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// Operations on groups, both encoding and decoding: see lua/groups.

// groupsTogether is how many groups of a list one call returns, groupsLookedAt among how many it looks
// for some, and groupFlush how many jobs of a group one call removes.
const (
	groupsTogether = 200
	groupsLookedAt = 2000
	groupFlush     = 200
)

// encodeGroups appends an operation on groups.
func (p *partition) encodeGroups(c *call, u *unit, op *storage.Op) {
	switch op.Kind {
	case storage.SetGroup:
		encodeSetGroup(c, op)
	case storage.GetGroup:
		c.words("get-group", &op.Tube, op.Args.Group)
		c.expect((*partition).readGetGroup, op)
	case storage.GroupStats:
		c.words("group-stats", &op.Tube, op.Args.Group)
		c.expect((*partition).readGroupStats, op)
	case storage.ListGroups:
		p.encodeListGroups(c, u, op)
	case storage.PauseGroup:
		c.words("pause-group", &op.Tube, op.Args.Group, &op.Delay)
		c.expect((*partition).readFound, op)
	}
}

func encodeSetGroup(c *call, op *storage.Op) {
	c.words("set-group", &op.Tube, op.Args.Group)
	if g := op.Args.GroupConfig; g == nil {
		c.words("", "", "", "")
	} else {
		c.words(strconv.FormatUint(uint64(g.Concurrency), 10), schema.RatesText(g.Rates), int(max(g.Weight, 1)), g.TTL.Milliseconds())
	}
	c.expect((*partition).readFound, op)
}

// limits reads concurrency and rates.
func (r *reply) limits() (l tube.Limits) {
	l.Concurrency = uint32(r.int64())
	for i := range l.Rates {
		l.Rates[i] = uint32(r.int64())
	}
	return l
}

// readGetGroup reads what set-group has set.
func (p *partition) readGetGroup(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	a.Result = &storage.Result{}
	if a.NotFound = !r.found(); !a.NotFound {
		a.Result.GroupConfig = &tube.GroupConfig{Limits: r.limits(), Weight: uint32(r.int64()), TTL: r.ms()}
	}
}

// groupStats reads the stats of a group.
func (r *reply) groupStats() tube.GroupStats {
	s := tube.GroupStats{Name: r.text(), Ready: r.count(), Delayed: r.count(), Reserved: r.count(), Buried: r.count()}
	s.Limits, s.Weight, s.PauseLeft, s.Held = r.limits(), uint32(r.int64()), r.ms(), tube.Held(r.int64())
	if s.Held > tube.LastHeld {
		r.err = errReply
	}
	return s
}

func (p *partition) readGroupStats(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	a.Result = &storage.Result{}
	if a.NotFound = !r.found(); !a.NotFound {
		a.Result.Groups = []tube.GroupStats{r.groupStats()}
	}
}

// encodeListGroups appends a part of a list of groups. The cursor is the name of the last group of
// the page before. First those are found which are in no order in Redis.
func (p *partition) encodeListGroups(c *call, u *unit, op *storage.Op) {
	m, count := &u.many, countOf(op)
	if count == 0 {
		op.Answer.Result = &storage.Result{}
		return
	}
	if !m.begun {
		m.begun, m.last = true, "0"
		if op.Args != nil {
			m.holder = op.Args.Cursor
		}
	}
	if m.last != "" {
		upto := ""
		if len(m.names) > count {
			upto = m.names[count]
		}
		c.words("find-groups", op.Tube, m.last, groupsLookedAt, m.holder, upto)
		c.expect(readFindGroups(u, count), op)
		return
	}
	for len(m.names) > 0 && m.names[0] <= m.holder {
		m.names = m.names[1:]
	}
	names := m.names[:min(count+1-len(m.groups), groupsTogether, len(m.names))]
	c.words("list-groups", op.Tube, min(count+1-len(m.groups), groupsTogether), m.holder, len(names))
	for _, name := range names {
		c.words(name)
	}
	c.expect(readListGroups(u, names), op)
}

// readFindGroups reads names of groups, of which the first ones of a page that begins behind others are
// needed: one more than it has.
func readFindGroups(u *unit, count int) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		m := &u.many
		if m.last = r.text(); m.last == "0" {
			m.last = ""
		}
		for range r.int64() {
			m.names = append(m.names, r.text())
		}
		slices.Sort(m.names)
		m.names = slices.Compact(m.names)
		if len(m.names) > count+1 {
			m.names, m.cut = m.names[:count+1], true
		}
		u.againLater()
	}
}

// readListGroups reads a part of a list of groups: one more than a page has, if there are more. Of those that
// were found before, the call was given some.
func readListGroups(u *unit, given []string) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		m, count := &u.many, countOf(ops[0])
		for r.err == nil && r.found() {
			m.groups = append(m.groups, r.groupStats())
			m.holder = m.groups[len(m.groups)-1].Name
		}
		all := r.found()
		if r.err == nil && len(m.groups) <= count && (!all || m.moreNames(given)) {
			u.againLater()
			return
		}
		result := &storage.Result{Groups: m.groups}
		if len(m.groups) > count {
			result.Groups = m.groups[:count]
			result.Cursor = m.groups[count-1].Name
		}
		ops[0].Answer.Result = result
		u.many = manyProgress{}
	}
}

// moreNames returns whether there may be groups behind those that were given to a call and do not exist
// any more, and continues with them.
func (m *manyProgress) moreNames(given []string) bool {
	rest := m.names[len(given):]
	if len(rest) == 0 && !m.cut {
		return false
	}
	if len(rest) == 0 {
		m.last, m.cut = "0", false
	}
	m.names = rest
	if len(given) > 0 {
		m.holder = max(m.holder, given[len(given)-1])
	}
	return true
}

// encodeFlushGroup appends a part of a flush of a group.
func (p *partition) encodeFlushGroup(c *call, u *unit, op *storage.Op) {
	m := &u.many
	c.words("flush-group", op.Tube, op.Args.Group, min(groupFlush, c.stepSize(&p.batchSizes.flush)), m.last, m.holder)
	c.expect(readFlushGroup(u), op)
}

// readFlushGroup reads the answer to a part of a flush of a group.
func readFlushGroup(u *unit) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		m := &u.many
		u.partial.add(ops[0], r.int())
		m.last, m.holder = strconv.FormatInt(r.int64(), 10), r.text()
		u.goOnFlushing(m.holder != "", ops[0])
	}
}
