package redis

import (
	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// A move of jobs to another tube is done in parts. Each part moves the first jobs in one call,
// if the other tube is in the same partition and the records are small. Otherwise they take the
// way of dead letters, see deadletter.go: they become pending, become jobs there, and are
// removed here. If this instance dies meanwhile, another one finishes the last steps.

// moving is a MoveJobs in progress.
type moving struct {
	trip     *trip
	op       *storage.Op
	from, to *partition
	left     int // how many more jobs are moved at most
	begun    bool
	done     int

	// Of the present part:
	moved       int
	pending     int
	deadLetters []*deadLetter
	refused     error
}

// newMoving starts to move jobs; nil if there is nothing to move.
func newMoving(t *trip, op *storage.Op) *moving {
	op.Answer = storage.Answer{}
	if op.Args.To == op.Tube || op.MaxJobs == 0 || op.State == tube.Reserved || op.State == tube.Gone {
		return nil
	}
	of := len(t.store.parts)
	return &moving{
		trip: t, op: op, left: int(op.MaxJobs),
		from: t.store.parts[schema.PartitionOf(op.Tube, of)], to: t.store.parts[schema.PartitionOf(op.Args.To, of)],
	}
}

// part returns the next part.
func (m *moving) part() *unit {
	u := &unit{background: func(c *call) {
		m.moved, m.pending, m.deadLetters, m.refused = 0, 0, nil, nil
		if here := m.from == m.to; here && c.noMemory != nil {
			m.refused = c.noMemory
		} else {
			m.encode(c, here)
		}
	}}
	u.after = m.afterPart
	return u
}

// encode appends a part.
func (m *moving) encode(c *call, here bool) {
	limit := min(m.left, c.stepSize(&m.from.stepSizes.move))
	known := m.to.refs.isReported
	c.words("move-jobs", m.op.Tube, m.op.State.String(), m.op.Args.To, boolArg(here && known(m.op.Args.To)), boolArg(here), limit)
	c.ops += limit
	c.moved += limit
	if here {
		c.puts += limit
	}
	c.expect(func(p *partition, r *reply, _ []*storage.Op) { m.read(p, r, here, limit) })
}

// read reads the answer to a part.
func (m *moving) read(p *partition, r *reply, here bool, limit int) {
	if in := r.int(); !m.begun {
		m.begun, m.left = true, min(m.left, in)
	}
	m.moved, m.pending = r.int(), r.int()
	if here {
		r.puts += limit
		if r.id += uint64(m.moved); m.moved > 0 {
			p.ids.order.saw(r.id - 1)
		}
	}
	for range m.pending {
		l := &deadLetter{from: p, to: m.op.Args.To, targetName: m.to.instance.name()}
		place := r.text()
		if l.id, l.job = p.nextTaken(r); l.id != 0 && !r.recordless && r.err == nil && l.parseDestination(place) {
			m.deadLetters = append(m.deadLetters, l)
		}
	}
}

// afterPart sends what is pending, and then continues.
func (m *moving) afterPart(err error) {
	if err == nil {
		err = m.refused
	}
	if err != nil || m.moved+m.pending == 0 {
		m.end(err)
		return
	}
	m.done, m.left = m.done+m.moved+m.pending, m.left-m.moved-m.pending
	if len(m.deadLetters) == 0 {
		m.goOn(nil)
		return
	}
	transferAll(m.deadLetters, m.goOn)
}

// goOn starts the next part, or ends.
func (m *moving) goOn(err error) {
	if err != nil || m.left == 0 {
		m.end(err)
		return
	}
	m.from.submitOrEnd(m.part())
}

// end answers the operation, and lets the trip continue. After a failure, pending jobs are sent
// later; the answer is how many jobs had been moved by then.
func (m *moving) end(err error) {
	m.op.Answer.Count, m.op.Answer.Err = m.done, err
	m.trip.goOn()
}
