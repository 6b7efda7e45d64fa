package redis

import (
	"fmt"
	"sync/atomic"

	"redstalk/storage"
	"redstalk/tube"
)

// A job that is exhausted goes to its dead-letter tube in the call in which it is parked, if
// that tube is in the same partition and the record is small. Otherwise it takes steps, of
// which each is a call of its own:
//
//  1. The job is parked as bound (lua/tagged/bound.lua).
//  2. It is read, with others that wait.
//  3. In the partition of its dead-letter tube it becomes a job, and a mark is left that it
//     has: so it does so once.
//  4. It is removed where it came from.
//  5. The mark is removed. It would expire long after.
//
// Whoever dies between any two of them, the next instance that ticks in the partition goes
// on from the second one. Two that do so at the same time do no harm.

// someLetters is about how many dead letters are sent together.
const someLetters = 32

// letters is whether a partition sends dead letters.
type letters struct{ sending atomic.Bool }

// letter is a dead letter on its way.
type letter struct {
	from    *partition
	id      uint64
	to, key string
	its     job
}

// name is what no other letter is called.
func (l *letter) name() string { return fmt.Sprintf("%d:%d", l.from.number, l.id) }

// begin begins to send what waits in p, unless that is under way.
func (ls *letters) begin(p *partition) {
	if !ls.sending.Swap(true) {
		p.sendSome()
	}
}

// sendSome reads some letters, and sends them.
func (p *partition) sendSome() {
	var some []*letter
	u := &unit{upkeep: func(c *call) {
		some = nil
		c.add(func(r *reply) { some = p.readLetters(r) }, "bound", someLetters)
	}}
	u.after = func(err error) {
		if err != nil || len(some) == 0 {
			p.letters.sending.Store(false)
			return
		}
		p.sendEach(some)
	}
	p.submitLetter(u)
}

// submitLetter submits a unit. If the partition has ended that is its end as well.
func (p *partition) submitLetter(u *unit) {
	if !p.submit(u) {
		u.end(storage.ErrClosed)
	}
}

// readLetters reads what bound answers.
func (p *partition) readLetters(r *reply) (some []*letter) {
	for range r.int64() {
		l := &letter{from: p, to: r.text(), key: r.text()}
		l.id, l.its = p.nextTaken(r)
		if l.id != 0 && !r.bare && r.err == nil {
			some = append(some, l)
		}
	}
	return some
}

// sendEach sends letters, and goes on with more when all of them are gone. If any of them
// fails it is tried again by a later tick.
func (p *partition) sendEach(some []*letter) {
	var left, failed atomic.Int32
	left.Store(int32(len(some)))
	for _, l := range some {
		l.arrive(func(err error) {
			if err != nil {
				failed.Add(1)
			}
			if left.Add(-1) > 0 {
				return
			}
			if failed.Load() > 0 {
				p.letters.sending.Store(false)
				return
			}
			p.sendSome()
		})
	}
}

// arrive makes a job of the letter where it is bound to, and then has it depart.
func (l *letter) arrive(ended func(error)) {
	to, arrived := l.from.all(placeOf(l.to, l.from.of)), false
	u := &unit{upkeep: func(c *call) {
		if arrived = false; c.noMemory == nil {
			to.encodeArrive(c, l, &arrived)
		}
	}}
	u.after = func(err error) {
		if err == nil && !arrived {
			err = storage.ErrNoSpace
		}
		if err != nil {
			ended(err)
			return
		}
		l.depart(to, ended)
	}
	to.submitLetter(u)
}

// encodeArrive appends what makes a job of a letter.
func (p *partition) encodeArrive(c *call, l *letter, arrived *bool) {
	op := storage.Op{Tube: l.to, Pri: l.its.pri, TTR: uint32(l.its.ttr.Seconds()), Body: l.its.body}
	c.words("arrive", l.to, boolArg(p.attendance.known(l.to)), l.name(), l.key, len(op.Body))
	c.addRecordWith(&op, &tube.Facts{Key: l.key, FromTube: l.its.tube, FromID: l.id})
	c.puts++
	c.ops++
	c.expect(func(_ *partition, r *reply, _ []*storage.Op) {
		*arrived = true
		if r.puts++; r.found() {
			r.id++
			p.ids.order.saw(r.id - 1)
		}
	})
}

// depart removes the letter where it came from, and then the mark.
func (l *letter) depart(to *partition, ended func(error)) {
	gone := &unit{upkeep: func(c *call) {
		c.words("depart")
		c.addID(l.id)
		c.expect(func(_ *partition, r *reply, _ []*storage.Op) { skipNumber(r) })
		c.ops++
	}}
	gone.after = func(err error) {
		if err == nil {
			to.submitLetter(&unit{upkeep: func(c *call) { c.add(skipNumber, "departed", l.name()) }})
		}
		ended(err)
	}
	l.from.submitLetter(gone)
}
