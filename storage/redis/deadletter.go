package redis

import (
	"cmp"
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
//  5. The mark is made to expire after some minutes.
//
// Whoever dies between any two of them, the next instance that ticks in the partition goes
// on from the second one. Two may do so at the same time: the mark is there for whoever has
// read the letter before it was removed. One that stands still for so long that the mark is
// gone was declared dead, and does not send the letter under another name.

const (
	// someLetters is about how many dead letters a partition sends together, and allLetters all
	// of them that are partitions of this Store: the letters may all be for one, and then others
	// wait for all of them there. leastLetters is what each of them sends at least.
	someLetters  = 32
	allLetters   = 128
	leastLetters = 4

	// letterLoad is as how many operations a letter that arrives counts.
	letterLoad = 4
)

// deadLetters says how far a partition is with sending letters. It goes through those that wait
// from the first to the last, again and again until there was none on the whole way: where many
// were that are gone a part of it may have none, though others wait behind it.
type deadLetters struct {
	sending atomic.Bool

	// The rest belongs to who has set sending.
	from  string // where to go on, as Redis says it
	found bool   // there was a letter, or this way was not begun at the first
}

// firstLetter is where a way through all letters begins, and as Redis says that it has ended.
const firstLetter = "0"

// deadLetter is a job on its way.
type deadLetter struct {
	from    *partition
	as      string // name of this instance where it is bound to, when it was read
	id      uint64
	to, key string
	its     job

	moves        bool   // it is no dead letter, see moving.go
	state, score string // where it will be, and that in its queue
	metadata     *tube.Metadata
}

// name is what no other letter is called.
func (l *deadLetter) name() string { return fmt.Sprintf("%d:%d", l.from.number, l.id) }

// where is the partition to which it is bound.
func (l *deadLetter) where() *partition { return l.from.all(placeOf(l.to, l.from.of)) }

// begin begins to send what waits in p, unless that is under way.
func (ls *deadLetters) begin(p *partition) {
	if !ls.sending.Swap(true) {
		p.senders.Add(1)
		ls.from = cmp.Or(ls.from, firstLetter)
		ls.found = ls.from != firstLetter
		p.sendSome()
	}
}

// sendSome reads some letters, and sends them.
func (p *partition) sendSome() {
	ls, next, some := &p.letters, "", []*deadLetter(nil)
	u := &unit{upkeep: func(c *call) {
		some = nil
		p.encodeLetters(c, ls.from, func(from string, read []*deadLetter) { next, some = from, read })
	}}
	u.after = func(err error) {
		if err != nil {
			p.endLetters()
			return
		}
		ls.from, ls.found = next, ls.found || len(some) > 0
		p.sendEach(some)
	}
	p.submitLetter(u)
}

// sendMore goes on with more letters, unless there are none.
func (p *partition) sendMore() {
	ls := &p.letters
	if ls.from == firstLetter {
		if !ls.found {
			p.endLetters()
			return
		}
		ls.found = false
	}
	p.sendSome()
}

// endLetters says that p sends no more, until begin.
func (p *partition) endLetters() {
	p.senders.Add(-1)
	p.letters.sending.Store(false)
}

// lettersTogether is how many letters p may send together: its share, as long as others send, too.
func (p *partition) lettersTogether() int {
	return min(max(allLetters/max(int(p.senders.Load()), 1), leastLetters), someLetters)
}

// submitLetter submits a unit. If the partition has ended that is its end as well.
func (p *partition) submitLetter(u *unit) {
	if !p.submit(u) {
		u.end(storage.ErrClosed)
	}
}

// encodeLetters asks for some letters, and where to go on.
func (p *partition) encodeLetters(c *call, from string, take func(next string, some []*deadLetter)) {
	c.add(func(r *reply) {
		next := r.text()
		take(next, p.readLetters(r))
	}, "bound", from, p.lettersTogether())
}

// readLetters reads what bound answers behind where to go on.
func (p *partition) readLetters(r *reply) (some []*deadLetter) {
	for range r.int64() {
		l := &deadLetter{from: p, to: r.text()}
		l.as = l.where().instance.name()
		place := r.text()
		l.id, l.its = p.nextTaken(r)
		if l.id != 0 && !r.bare && r.err == nil && l.setPlace(place) {
			some = append(some, l)
		}
	}
	return some
}

// sendEach sends letters, and goes on with more when all of them are gone. If any of them
// fails it is tried again by a later tick.
func (p *partition) sendEach(some []*deadLetter) {
	if len(some) == 0 {
		p.sendMore()
		return
	}
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
				p.endLetters()
				return
			}
			p.sendMore()
		})
	}
}

// arrive makes a job of the letter where it is bound to, and then has it depart.
func (l *deadLetter) arrive(ended func(error)) {
	to, arrived := l.where(), false
	u := &unit{upkeep: func(c *call) {
		if arrived = false; c.noMemory == nil && to.instance.name() == l.as {
			to.encodeArrive(c, l, &arrived)
		}
	}}
	u.after = func(err error) {
		if err == nil && !arrived {
			err = storage.ErrUnavailable
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
func (p *partition) encodeArrive(c *call, l *deadLetter, arrived *bool) {
	c.pacedBy(&l.from.paces.move)
	c.words("arrive", l.to, boolArg(p.attendance.known(l.to)), l.name(), l.key, len(l.its.body), l.state, l.score)
	if l.moves {
		c.addStaged(l.movedRecord())
	} else {
		op := storage.Op{Tube: l.to, Pri: l.its.pri, TTR: uint32(l.its.ttr.Seconds()), Body: l.its.body}
		c.addRecordWith(&op, &tube.Metadata{Key: l.key, FromTube: l.its.tube, FromID: l.id})
	}
	c.puts++
	c.bytes += len(l.its.body)
	c.ops += letterLoad
	c.moved += letterLoad
	c.expect(func(_ *partition, r *reply, _ []*storage.Op) {
		*arrived = true
		if r.puts++; r.found() {
			r.id++
			p.ids.order.saw(r.id - 1)
		}
	})
}

// depart removes the letter where it came from, and then the mark.
func (l *deadLetter) depart(to *partition, ended func(error)) {
	gone := &unit{upkeep: func(c *call) {
		c.pacedBy(&l.from.paces.move)
		c.words("depart")
		c.addID(l.id)
		c.expect(func(_ *partition, r *reply, _ []*storage.Op) { skipNumber(r) })
		c.ops++
	}}
	gone.after = func(err error) {
		if err == nil {
			to.submit(&unit{upkeep: func(c *call) { c.add(skipNumber, "departed", l.name()) }})
		}
		ended(err)
	}
	l.from.submitLetter(gone)
}
