package redis

import (
	"fmt"
	"strconv"

	"redstalk/storage"
	"redstalk/tube"
)

const (
	// maxOps bounds how many operations go into one script call, and so how
	// long Redis does nothing else: about a millisecond.
	maxOps = 256

	// maxBytes bounds the bodies in one script call; one may be larger.
	maxBytes = 1 << 20

	// maxMoves bounds how many jobs a single operation moves in one call.
	maxMoves = 500

	// maxID is the largest id there can be: clients and Lua read ids as
	// doubles.
	maxID = 1<<53 - 1
)

// call is one call of the script being put together, and what to do with its
// answers.
type call struct {
	args   []any
	puts   int
	ops    int
	bytes  int
	decode []func(*reply)
}

// fixedArgs are how many of the arguments stand before the operations.
const fixedArgs = 5

func (c *call) reset() {
	clear(c.args)
	c.args = append(c.args[:0], make([]any, fixedArgs)...)
	c.decode = c.decode[:0]
	c.puts, c.ops, c.bytes = 0, 0, 0
}

func (c *call) full() bool { return c.ops >= maxOps || c.bytes >= maxBytes }

// add appends an operation and how its answer is to be read.
func (c *call) add(decode func(*reply), words ...any) {
	c.args = append(c.args, words...)
	c.decode = append(c.decode, decode)
	c.ops++
}

// member is how keys and ZSETs name a job.
func member(id uint64) string {
	if id > maxID {
		return "-" // no job has that id
	}
	var b [16]byte
	for i := range b {
		b[len(b)-1-i] = byte('0' + id%10)
		id /= 10
	}
	return string(b[:])
}

func holderArg(h tube.Holder) string { return strconv.FormatUint(uint64(h), 10) }

// encode appends the operations of u, from where it stands, and advances it.
// It stops behind an operation that may not be finished by one call, and
// before one that depends on answers of this call.
func (p *partition) encode(u *unit) {
	if u.upkeep != nil {
		u.upkeep(&p.call)
		return
	}
	first := u.at
	for ops := u.batch.Ops; u.at < len(ops); {
		op := &ops[u.at]
		if op.Kind == storage.Leave && u.at > first {
			return // what the holder has is not known before the answers are
		}
		op.Answer = storage.Answer{}
		u.at++
		if op.Kind == storage.Kick && op.Bound > maxMoves {
			p.encodeLongKick(u, op)
			return
		}
		p.encodeOp(op)
	}
}

func (p *partition) encodeOp(op *storage.Op) {
	c, a := &p.call, &op.Answer
	switch op.Kind {
	case storage.Put:
		c.puts++
		c.bytes += len(op.Body)
		c.add(func(r *reply) { a.ID = r.id() }, "put", op.Tube, op.Pri, op.Delay, max(op.TTR, tube.MinTTR), op.Body)
	case storage.Take:
		p.encodeTake(op)
	case storage.Move:
		c.add(func(r *reply) { p.readMove(r, op) }, "move", op.Move.String(), holderArg(op.Holder), member(op.ID), op.Pri, op.Delay)
	case storage.Kick:
		c.add(func(r *reply) { a.Count, _ = r.int(), r.text() }, "kick", op.Tube, op.Bound, "")
	case storage.Peek:
		c.add(func(r *reply) { readPeek(r, a) }, "peek", member(op.ID))
	case storage.PeekHead:
		c.add(func(r *reply) { readPeek(r, a) }, "head", op.State.String(), op.Tube)
	case storage.Pause:
		c.add(func(r *reply) { a.NotFound = !r.found() }, "pause", op.Tube, op.Delay)
	case storage.Attend:
		p.encodeAttend(op)
	case storage.Leave:
		p.encodeLeave(op)
	default:
		p.encodeReport(op)
	}
}

func (p *partition) encodeTake(op *storage.Op) {
	wait := "0"
	if op.Wait {
		wait = "1"
	}
	c := &p.call
	c.add(func(r *reply) { p.readTake(r, op) }, "take", holderArg(op.Holder), wait, len(op.Tubes))
	for _, name := range op.Tubes {
		c.args = append(c.args, name)
	}
}

// encodeLongKick asks for the next part of a kick that may be too long for one
// call. The first part decides from which state it kicks.
func (p *partition) encodeLongKick(u *unit, op *storage.Op) {
	part := min(int(op.Bound)-u.kicked, maxMoves)
	p.call.add(func(r *reply) {
		n, state := r.int(), r.text()
		u.kicked += n
		if n == maxMoves && u.kicked < int(op.Bound) {
			u.kickFrom = state
			u.at-- // once more
			return
		}
		op.Answer.Count = u.kicked
		u.kicked, u.kickFrom = 0, ""
	}, "kick", op.Tube, part, u.kickFrom)
}

func (p *partition) encodeAttend(op *storage.Op) {
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
	p.call.add(func(r *reply) { r.found() }, "attend", name, using, watching, waiting)
}

// encodeLeave gives back what a connection holds. If that is very much, the
// rest follows in calls of its own.
func (p *partition) encodeLeave(op *storage.Op) {
	ids := p.holdings.leave(op.Holder)
	if len(ids) == 0 {
		return
	}
	first := ids[:min(len(ids), maxMoves)]
	p.encodeGiveBack(op.Holder, first)
	for rest := ids[len(first):]; len(rest) > 0; {
		part := rest[:min(len(rest), maxMoves)]
		rest = rest[len(part):]
		p.submit(&unit{upkeep: func(*call) { p.encodeGiveBack(op.Holder, part) }})
	}
}

func (p *partition) encodeGiveBack(h tube.Holder, ids []uint64) {
	c := &p.call
	c.add(func(r *reply) { r.found() }, "give-back", holderArg(h), len(ids))
	for _, id := range ids {
		c.args = append(c.args, member(id))
	}
	c.ops += len(ids)
}

func (p *partition) encodeReport(op *storage.Op) {
	c := &p.call
	switch op.Kind {
	case storage.JobStats:
		c.add(func(r *reply) { readJobStats(r, op) }, "job-stats", member(op.ID))
	case storage.TubeStats:
		using, watching := p.attendance.now(op.Tube)
		c.add(func(r *reply) { readTubeStats(r, op, using, watching) }, "tube-stats", op.Tube)
	case storage.Stats:
		c.add(func(r *reply) { readStats(r, op) }, "stats")
	case storage.Tubes:
		c.add(func(r *reply) { readTubes(r, op) }, "tubes")
	default:
		op.Answer.Err = fmt.Errorf("%w: no such operation: %d", storage.ErrUnavailable, op.Kind)
	}
}
