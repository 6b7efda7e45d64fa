package redis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// Operations on many jobs of a tube, both encoding and decoding: see lua/bulk. They take
// several calls, between which others are served. movejobs.go has moves to another tube.

// listed is a job of a list.
type listed struct {
	score uint64
	tube.JobStats
}

// readPosition reads a position.
func (r *reply) readPosition() listPosition { return listPosition{r.text(), r.text()} }

// encodeMany appends a flush or a list, or the next part of one.
func (p *partition) encodeMany(c *call, u *unit, op *storage.Op) {
	switch {
	case op.Kind == storage.ListJobs:
		p.encodeList(c, u, op)
	case op.Args != nil && op.Args.Group != "":
		p.encodeFlushGroup(c, u, op)
	case op.State == tube.Reserved:
		m := &u.many
		c.words("flush-reserved", op.Tube, c.stepSize(&p.stepSizes.flushReserved), m.last, m.holder, m.position.score, m.position.key)
		c.expect(readFlushReserved(u), op)
	default:
		p.encodeFlush(c, u, op)
	}
}

// encodeFlush appends a part of a flush of jobs that are not reserved. Ready jobs come last,
// because jobs can become ready meanwhile.
func (p *partition) encodeFlush(c *call, u *unit, op *storage.Op) {
	m := &u.many
	if !m.begun {
		m.begun, m.states = true, "delayed buried ready lane-ready lone-ready "
		switch op.State {
		case tube.Ready:
			m.states = "ready lane-ready lone-ready "
		case tube.Delayed, tube.Buried:
			m.states = op.State.String() + " "
		}
	}
	c.words("flush", op.Tube, m.states, c.stepSize(&p.stepSizes.flush), m.last, m.position.score, m.position.key)
	c.expect(readFlush(u), op)
}

// readFlush reads the answer to a part of a flush.
func readFlush(u *unit) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		m := &u.many
		u.partial.add(ops[0], r.int())
		m.states, m.last = r.text(), strconv.FormatInt(r.int64(), 10)
		m.position = r.readPosition()
		u.goOnFlushing(m.states != "", ops[0])
	}
}

// readFlushReserved is readFlush for reserved jobs. This instance drops its own at once.
func readFlushReserved(u *unit) func(*partition, *reply, []*storage.Op) {
	return func(p *partition, r *reply, ops []*storage.Op) {
		m := &u.many
		u.partial.add(ops[0], r.int())
		more := r.found()
		m.last, m.holder = strconv.FormatInt(r.int64(), 10), r.text()
		m.position = r.readPosition()
		p.dropFlushed(r)
		u.goOnFlushing(more, ops[0])
	}
}

func (u *unit) goOnFlushing(more bool, op *storage.Op) {
	if more {
		u.againLater()
		return
	}
	op.Answer.Count = u.partial.jobs
	u.partial, u.many = partial{}, manyProgress{}
}

// encodeList appends a part of a list of jobs. With an invalid cursor the page is empty.
func (p *partition) encodeList(c *call, u *unit, op *storage.Op) {
	begin, ok := p.cursorOf(op)
	count := countOf(op)
	if !ok || count == 0 || op.State == tube.Gone {
		op.Answer.Result = &storage.Result{}
		return
	}
	m := &u.many
	if !m.begun {
		m.begun, m.position = true, begin
	}
	if op.State != tube.Reserved {
		c.words("list", op.Tube, op.State.String(), min(count-len(m.found)+1, c.stepSize(&p.stepSizes.list)), m.position.score, m.position.key)
		c.expect(readList(u), op)
		return
	}
	// A lease set at the beginning can have jobs before the first one of the page.
	most := count + 1 + maxTogether
	c.words("list-reserved", op.Tube, c.stepSize(&p.stepSizes.listReserved), most, begin.score, begin.key, m.holder, m.had, m.position.score, m.position.key)
	c.expect(readListReserved(u), op)
}

// countOf returns how many jobs a page has at most.
func countOf(op *storage.Op) int { return int(min(op.MaxJobs, tube.MaxListed)) }

// cursorOf returns the position after which a page begins; false if the cursor is invalid.
func (p *partition) cursorOf(op *storage.Op) (listPosition, bool) {
	if op.Args == nil || op.Args.Cursor == "" {
		return listPosition{}, true
	}
	var score, id uint64
	var end byte
	n, _ := fmt.Sscanf(op.Args.Cursor, "%d.%d%c", &score, &id, &end)
	if n != 2 || score > 1<<53 || id > 1<<53 {
		return listPosition{}, false
	}
	return listPosition{strconv.FormatUint(score, 10), p.prefix + string(schema.AppendID(nil, id))}, true
}

// readList reads a part of a list of jobs that are not reserved.
func readList(u *unit) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		m := &u.many
		all := r.found()
		m.position = r.readPosition()
		r.readListed(m)
		if !all && len(m.found) <= countOf(ops[0]) {
			u.againLater()
			return
		}
		u.endList(ops[0])
	}
}

// readListReserved is readList for reserved jobs, which come in the order of their holders.
func readListReserved(u *unit) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		m := &u.many
		all := r.found()
		m.holder, m.had = r.text(), r.int()
		m.position = r.readPosition()
		r.readListed(m)
		slices.SortFunc(m.found, func(a, b listed) int {
			return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.ID, b.ID))
		})
		m.found = m.found[:min(len(m.found), countOf(ops[0])+1)]
		if !all {
			u.againLater()
			return
		}
		u.endList(ops[0])
	}
}

// readListed reads jobs of a list. A job that has moved between two parts is listed once.
func (r *reply) readListed(m *manyProgress) {
	seen := make(map[uint64]bool, len(m.found))
	for i := range m.found {
		seen[m.found[i].ID] = true
	}
	for range r.int64() {
		id := r.count()
		score := uint64(r.parse(r.text()))
		size := r.int()
		s := r.jobStats(id)
		if s == nil {
			return
		}
		s.Size = size
		if !seen[id] {
			m.found = append(m.found, listed{score, *s})
		}
	}
}

// endList answers with a page of the jobs that were found, which can be too many.
func (u *unit) endList(op *storage.Op) {
	found, a := u.many.found, &storage.Result{}
	if count := countOf(op); len(found) > count {
		found = found[:count]
		last := &found[count-1]
		a.Cursor = fmt.Sprintf("%d.%d", last.score, last.ID)
	}
	for i := range found {
		a.Jobs = append(a.Jobs, found[i].JobStats)
	}
	op.Answer.Result = a
	u.many = manyProgress{}
}

// dropFlushed reads which reservations of this instance were flushed.
func (p *partition) dropFlushed(r *reply) {
	for range r.int64() {
		member := r.text()
		if len(member) < r.prefixed+schema.IDLen {
			r.err = errReply
			return
		}
		first, behind := uint64(r.parse(member[r.prefixed:r.prefixed+schema.IDLen])), member[r.prefixed+schema.IDLen:]
		n := 1
		if behind != "" {
			if _, err := fmt.Sscanf(behind, ";%d;", &n); err != nil {
				r.err = errReply
			}
		}
		for i := range uint64(n) {
			p.holdings.drop(first + i*r.step)
		}
	}
}
