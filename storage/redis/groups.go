package redis

import (
	"strconv"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Operations on groups, both encoding and decoding: see lua/groups.

// groupsTogether is how many groups of a list one call returns, groupsLookedAt among how many it looks
// for some, and groupFlush how many jobs of a group one call removes.
const (
	groupsTogether = 200
	groupsLookedAt = 1000
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
		c.words(strconv.FormatUint(uint64(g.Concurrency), 10), g.Rates.Stored(), int(max(g.Weight, 1)), g.TTL.Milliseconds())
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
		if m.begun = true; op.Args != nil {
			m.holder = op.Args.Cursor
		}
		found := false
		if m.names, found = p.namesFor(op.Tube, m.holder); !found {
			m.last = "0"
		}
	}
	if m.last == "" {
		names, more := m.names.behind(m.holder, groupsTogether)
		if len(names) > 0 || !more {
			encodeGroupsNamed(c, u, op, names, more)
			return
		}
		m.names.upto, m.names.since, m.last = "", time.Now(), "0"
	}
	c.words("find-groups", op.Tube, m.last, groupsLookedAt, m.holder, m.names.upto)
	c.expect(readFindGroups(u), op)
}

// readFindGroups reads names of groups.
func readFindGroups(u *unit) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		m := &u.many
		if m.last = r.text(); m.last == "0" {
			m.last = ""
		}
		for range r.int64() {
			m.names.add(strings.Clone(r.text()))
		}
		u.againLater()
	}
}

// encodeGroupsNamed appends a part of a list of groups, among which are those with these names, if they still
// exist. more says that others follow, which were found or not yet.
func encodeGroupsNamed(c *call, u *unit, op *storage.Op, names []string, more bool) {
	limit := min(countOf(op)+1-len(u.many.groups), groupsTogether)
	c.words("list-groups", op.Tube, limit, u.many.holder, boolArg(more), len(names))
	for _, name := range names {
		c.words(name)
	}
	last := ""
	if more {
		last = names[len(names)-1]
	}
	c.expect(readListGroups(u, last), op)
}

// How a part of a list of groups has ended.
const (
	groupsEnded = 1 // there are no more
	namesUsed   = 2 // the names that were given are used up, and there are more
)

// readListGroups reads a part of a list of groups: one more than a page has, if there are more. last is the
// last name that was given to it, if others follow.
func readListGroups(u *unit, last string) func(*partition, *reply, []*storage.Op) {
	return func(p *partition, r *reply, ops []*storage.Op) {
		m, count := &u.many, countOf(ops[0])
		for r.err == nil && r.found() {
			m.groups = append(m.groups, r.groupStats())
			m.holder = m.groups[len(m.groups)-1].Name
		}
		end := r.int64()
		if end == namesUsed {
			m.holder = max(m.holder, last)
		}
		if r.err == nil && len(m.groups) <= count && end != groupsEnded {
			u.againLater()
			return
		}
		result := &storage.Result{Groups: m.groups}
		if len(m.groups) > count {
			result.Groups = m.groups[:count]
			result.Cursor = m.groups[count-1].Name
		}
		m.names.after = result.Cursor
		ops[0].Answer.Result = result
		u.many = manyProgress{}
	}
}

// encodeFlushGroup appends a part of a flush of a group.
func (p *partition) encodeFlushGroup(c *call, u *unit, op *storage.Op) {
	m := &u.many
	c.words("flush-group", op.Tube, op.Args.Group, min(groupFlush, c.stepSize(&p.stepSizes.flush)), m.last, m.holder)
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
