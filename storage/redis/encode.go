package redis

import (
	"fmt"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// unit is what is carried out together: a batch of a connection, or upkeep.
type unit struct {
	batch    *storage.Batch
	since    time.Time // when it came
	at       int       // operations of the batch that are encoded
	begun    int       // of these, in earlier calls than the present one
	attends  int       // attending operations that attendance knows
	seen     int       // attending operations that are encoded
	before   int       // of these, in earlier calls than the present one
	kicked   int       // by a long kick that is under way
	kickFrom string    // the state from which it kicks
	listing  listing   // a list of tubes that is under way
	limit    *head     // the batch is one take, of a job that comes before this one; nil if of any

	upkeep func(*call)     // encodes an operation of the engine itself
	after  func(err error) // called when upkeep is done, if not nil
	keep   bool            // upkeep that must be done, however long it takes

	abandoned bool         // the batch was answered with an error
	yields    bool         // it has had as much of a call as one may have; others come first
	cut       bool         // something of it was cut, see rewind
	answered  map[int]bool // operations that were, though one before them was cut
}

// rewind goes back to the first operation that was cut, and returns whether there is
// one. It yields to others if it has got something.
func (u *unit) rewind(cut map[*storage.Op]bool) bool {
	ops, first := u.batch.Ops, u.begun
	for first < u.at && !cut[&ops[first]] {
		first++
	}
	if first == u.at {
		return false
	}
	u.cut, u.yields = true, first > u.begun
	for i := first + 1; i < u.at; i++ {
		if !cut[&ops[i]] && !u.answered[i] {
			if u.answered == nil {
				u.answered = make(map[int]bool)
			}
			u.answered[i], u.yields = true, true
		}
	}
	u.at = first
	return true
}

// given returns the operations that have given somebody a job, as far as u has got.
func (u *unit) given() (ops []*storage.Op) {
	if u.batch == nil {
		return nil
	}
	for i := range u.batch.Ops {
		if op := &u.batch.Ops[i]; (i < u.at || u.answered[i]) && givesJob(op) {
			ops = append(ops, op)
		}
	}
	return ops
}

// encode appends the operations of u, from where it stands, and advances it.
// It stops behind an operation that may not be finished by one call, and
// before one that depends on the answers.
func (p *partition) encode(u *unit) {
	u.begun, u.yields = u.at, false
	c := &p.call
	if u.upkeep != nil {
		u.upkeep(c)
		return
	}
	u.before = u.seen
	ops := u.batch.Ops
	if u.limit != nil {
		p.weigh(&ops[0])
		p.encodeTakeBefore(&ops[0], u.limit)
		u.at = 1
		return
	}
	if u.at == 0 && !u.cut && len(ops) > 0 && load(ops) < maxMoves {
		if section := p.sectionFor(ops); section != nil {
			p.encodeAll(u, section)
			return
		}
	}
	from := u.at
	u.at = p.until(ops, from)
	u.yields = load(ops[from:u.at]) >= maxMoves
	open := u.open(from)
	for _, op := range open {
		p.weigh(op)
	}
	p.encodeSequences(open, u)
}

// open returns the operations, from one as far as u has got, that were not answered.
func (u *unit) open(from int) []*storage.Op {
	ops := make([]*storage.Op, 0, u.at-from)
	for i := from; i < u.at; i++ {
		if !u.answered[i] {
			ops = append(ops, &u.batch.Ops[i])
		}
	}
	return ops
}

// until returns before which operation a call ends that begins with ops[from].
// Behind an operation that brings a body there are only others of its kind: so
// what is cut, see lua/10_batch.lua, is asked for again before anything that comes
// behind it is done, and what a connection does with a job that it takes is in a
// later call.
func (p *partition) until(ops []storage.Op, from int) int {
	much := 0
	for i := from; i < len(ops); i++ {
		much += loadOf(&ops[i])
		switch {
		case ops[i].Kind == storage.Leave && i > from:
			return i
		case p.isLong(&ops[i]):
			return i + 1
		case much >= maxMoves:
			return i + 1
		case bringsBody(&ops[i]) && i+1 < len(ops) && !sameKind(&ops[i], &ops[i+1]):
			return i + 1
		}
	}
	return len(ops)
}

// load is how much operations are that may be very much each: how many jobs are
// kicked, and in how many tubes is looked for one.
func load(ops []storage.Op) (all int) {
	for i := range ops {
		all += loadOf(&ops[i])
	}
	return all
}

func loadOf(op *storage.Op) int {
	switch op.Kind {
	case storage.Kick:
		return min(int(op.Bound), maxMoves)
	case storage.Take:
		return len(op.Tubes) - 1
	}
	return 0
}

// bringsBody returns whether the answer to an operation may have a body.
func bringsBody(op *storage.Op) bool {
	switch op.Kind {
	case storage.Take, storage.Peek, storage.PeekHead:
		return true
	}
	return op.Kind == storage.Move && op.Move == tube.ReserveJob
}

func sameKind(a, b *storage.Op) bool { return a.Kind == b.Kind && a.Move == b.Move }

// isLong returns whether an operation may take several calls.
func (p *partition) isLong(op *storage.Op) bool {
	switch op.Kind {
	case storage.Kick:
		return op.Bound > maxMoves
	case storage.Leave:
		return p.holdings.count(op.Holder) > maxMoves
	case storage.Tubes:
		return true
	}
	return false
}

// encodeAll puts all operations of u into a section of the call.
func (p *partition) encodeAll(u *unit, section *[]*storage.Op) {
	for i := range u.batch.Ops {
		op := &u.batch.Ops[i]
		if p.weigh(op); p.full && op.Kind == storage.Put {
			continue
		}
		*section = append(*section, op)
	}
	u.at = len(u.batch.Ops)
}

// weigh notes what an operation adds to the call, and begins its answer.
func (p *partition) weigh(op *storage.Op) {
	op.Answer = storage.Answer{}
	p.call.ops++
	p.call.ops += loadOf(op)
	if op.Kind == storage.Put {
		p.call.bytes += len(op.Body)
		if p.full {
			op.Answer.Err = p.fullErr
		}
	}
}

// encodeOp appends an operation that comes alone. u is the unit that it comes
// from.
func (p *partition) encodeOp(u *unit, op *storage.Op) {
	c := &p.call
	var read func(*partition, *reply, []*storage.Op)
	plain := func(f func(*reply, []*storage.Op)) {
		read = func(_ *partition, r *reply, ops []*storage.Op) { f(r, ops) }
	}
	switch op.Kind {
	case storage.Move:
		if finishes(op.Move) && p.holdings.lost(op.Holder, op.ID) {
			op.Answer.NotFound = true
			return
		}
		its := p.holdings.has(op.Holder, op.ID, p.serial)
		c.args = append(c.args, "move", op.Move.String(), boolArg(its != nil))
		c.addID(op.ID)
		c.args = append(c.args, &op.Pri, &op.Delay)
		if its != nil {
			its.leaveSet()
			if op.Move == tube.Release || op.Move == tube.Bury {
				its.spent = p.serial
			}
		}
		read = (*partition).readMove
	case storage.Attend:
		p.encodeAttend(u, op)
		return
	case storage.Kick:
		if p.isLong(op) {
			p.encodeLongKick(u, op)
			return
		}
		c.args = append(c.args, "kick", &op.Tube, &op.Bound, "")
		plain(func(r *reply, ops []*storage.Op) { ops[0].Answer.Count, _ = r.int(), r.text() })
	case storage.Peek:
		c.args = append(c.args, "peek")
		c.addID(op.ID)
		read = (*partition).readPeek
	case storage.PeekHead:
		c.args = append(c.args, "head", op.State.String(), &op.Tube)
		read = (*partition).readPeek
	case storage.Pause:
		c.args = append(c.args, "pause", &op.Tube, &op.Delay)
		plain(readFound)
	case storage.Leave:
		p.encodeLeave(u, op)
		return
	default:
		p.encodeReport(u, op)
		return
	}
	c.steps = append(c.steps, step{[]*storage.Op{op}, read})
}

// finishes returns whether a move is for the holder of a job.
func finishes(m tube.Move) bool {
	switch m {
	case tube.Delete, tube.Release, tube.Bury, tube.Touch:
		return true
	}
	return false
}

// encodeLongKick asks for the next part of a kick that may be too long for one
// call. The first part decides from which state it kicks.
func (p *partition) encodeLongKick(u *unit, op *storage.Op) {
	part := min(int(op.Bound)-u.kicked, maxMoves)
	p.call.args = append(p.call.args, "kick", op.Tube, part, u.kickFrom)
	p.call.steps = append(p.call.steps, step{[]*storage.Op{op}, func(_ *partition, r *reply, ops []*storage.Op) {
		n, state := r.int(), r.text()
		u.kicked += n
		if n == maxMoves && u.kicked < int(ops[0].Bound) {
			u.kickFrom = state
			u.at-- // once more
			return
		}
		ops[0].Answer.Count = u.kicked
		u.kicked, u.kickFrom = 0, ""
	}})
}

// encodeAttend counts who attends a tube here, once, and tells Redis if it
// must know at once.
func (p *partition) encodeAttend(u *unit, op *storage.Op) {
	u.seen++
	if u.seen <= u.attends {
		return // counted for a call that was not carried out; Redis is owed the tubes since
	}
	u.attends = u.seen
	for _, name := range op.Tubes {
		if p.attendance.count(name, op.Role, op.Delta) {
			p.encodeAttendance(name)
		}
	}
}

// encodeAttendance tells Redis who attends a tube here.
func (p *partition) encodeAttendance(name string) {
	waiting := 0
	if _, watching := p.attendance.now(name); watching > 0 {
		waiting = p.listener.Waiting(name)
	}
	using, watching := p.attendance.tell(name, waiting)
	p.call.told = append(p.call.told, name)
	p.call.add(func(r *reply) { r.found() }, "attend", name, using, watching, waiting)
}

// encodeLeave gives back what a connection that is gone holds. If that is very much
// it takes several calls, and those of others come in between.
func (p *partition) encodeLeave(u *unit, op *storage.Op) {
	h := op.Holder
	p.holdings.forget(h)
	p.encodeGiveBackSome(h, func() { u.at, u.yields = u.at-1, true })
}

// encodeGiveBackSome gives back what a connection holds, as much as one call may.
// more is called if something is left.
func (p *partition) encodeGiveBackSome(h tube.Holder, more func()) {
	some := p.holdings.some(h, maxMoves)
	if len(some) == 0 {
		return
	}
	p.encodeGiveBack(some)
	p.call.steps = append(p.call.steps, step{read: func(p *partition, _ *reply, _ []*storage.Op) {
		if p.holdings.count(h) > 0 {
			more()
		}
	}})
}

// leaveLater has what a connection that is gone holds given back in calls of their
// own.
func (p *partition) leaveLater(h tube.Holder) {
	p.holdings.forget(h)
	p.submit(&unit{keep: true, upkeep: func(*call) {
		p.encodeGiveBackSome(h, func() { p.leaveLater(h) })
	}})
}

// giveBack has jobs that nobody wants given back later.
func (p *partition) giveBack(all []reservation) {
	p.submit(&unit{keep: true, upkeep: func(*call) { p.encodeGiveBack(all) }})
}

// encodeGiveBack gives back those of the jobs that this instance still has, by the
// same reservations: somebody else here may have reserved one again meanwhile.
func (p *partition) encodeGiveBack(all []reservation) {
	all = slices.DeleteFunc(slices.Clone(all), func(r reservation) bool { return !p.holdings.stands(r) })
	if len(all) == 0 {
		return
	}
	c := &p.call
	c.add(func(r *reply) {
		r.found()
		for _, its := range all {
			p.holdings.drop(its.id)
		}
	}, "give-back", len(all))
	for _, r := range all {
		c.addID(r.id)
		its := p.holdings.jobs[r.id]
		its.leaveSet()
		its.spent = p.serial
	}
	c.ops += len(all)
}

func (p *partition) encodeReport(u *unit, op *storage.Op) {
	c := &p.call
	read := readJobStats
	switch op.Kind {
	case storage.JobStats:
		c.args = append(c.args, "job-stats")
		c.addID(op.ID)
	case storage.TubeStats:
		using, watching := p.attendance.now(op.Tube)
		c.args = append(c.args, "tube-stats", &op.Tube)
		read = func(r *reply, ops []*storage.Op) { readTubeStats(r, ops[0], using, watching) }
	case storage.Stats:
		c.args = append(c.args, "stats", silence.Milliseconds())
		read = readStats
	case storage.Tubes:
		p.encodeTubes(u, op)
		return
	default:
		op.Answer.Err = fmt.Errorf("%w: no such operation: %d", storage.ErrUnavailable, op.Kind)
		return
	}
	c.steps = append(c.steps, step{[]*storage.Op{op}, func(_ *partition, r *reply, ops []*storage.Op) { read(r, ops) }})
}

// listing is a list of tubes that is read in parts, from its end.
type listing struct {
	from  int // where the next part ends, behind the first; 0 if none was read
	names []string
}

// encodeTubes asks for the next part of the list of tubes.
func (p *partition) encodeTubes(u *unit, op *storage.Op) {
	l := &u.listing
	from := l.from
	if from == 0 {
		from = -1
	}
	p.call.args = append(p.call.args, "tubes", from, maxTubes)
	p.call.steps = append(p.call.steps, step{[]*storage.Op{op}, func(_ *partition, r *reply, ops []*storage.Op) {
		l.from = r.int()
		names := make([]string, r.int())
		for i := range names {
			names[i] = r.text()
		}
		l.names = append(names, l.names...)
		if l.from > 0 {
			u.at, u.yields = u.at-1, true // once more
			return
		}
		ops[0].Answer.Names = firsts(l.names)
		*l = listing{}
	}})
}

// firsts returns names without those that come twice.
func firsts(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		was := seen[name]
		seen[name] = true
		return was
	})
}
