package redis

import (
	"fmt"
	"slices"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// How units become arguments of the script. Here: which operations of a unit go into a call,
// and how consecutive ones are encoded together. encodeops.go has the operations that are
// encoded one by one, encodebackground.go those of the engine itself, and decode.go reads the
// answers.

const (
	// maxTubes limits the tubes in which one operation looks for jobs, or which it lists.
	maxTubes = 1000

	// maxMoves limits the jobs that a single operation moves in one call.
	maxMoves = 250

	// maxTogether limits the jobs of one Redis command: Lua passes a few thousand arguments at
	// most.
	maxTogether = 250
)

// encode appends the operations of u to the call, from its position on, and advances it. It
// stops after an operation that can take several calls, and before one that depends on the
// answers.
func (p *partition) encode(c *call, u *unit) {
	u.enterCall()
	if u.background != nil {
		u.background(c)
		return
	}
	ops := u.batch.Ops
	if u.limit == nil && u.at == 0 && !u.cut && len(ops) > 0 && load(ops) < maxMoves {
		if seq := p.sequenceFor(c, ops); seq != nil {
			c.addTo(seq, ops)
			u.at = len(ops)
			return
		}
	}
	from := u.at
	u.at = p.until(ops, from)
	u.yields = load(ops[from:u.at]) >= maxMoves
	open := u.open(from)
	for _, op := range open {
		c.weigh(op)
	}
	p.encodeOps(c, open, u)
}

// until returns the index at which a call ends that begins with ops[from]. After an operation
// that returns a body there are only others of its kind. So what is cut, see lua/batch.lua, is
// requested again before the operations that follow it are carried out, and what a connection
// does with a job that it takes is in a later call.
func (p *partition) until(ops []storage.Op, from int) int {
	much := 0
	for i := from; i < len(ops); i++ {
		much += loadOf(&ops[i])
		switch {
		case ops[i].Kind == storage.ReleaseAll && i > from:
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

// load is the work of operations that can be expensive: how many jobs are kicked, and in how
// many tubes a job is looked for.
func load(ops []storage.Op) (all int) {
	for i := range ops {
		all += loadOf(&ops[i])
	}
	return all
}

func loadOf(op *storage.Op) int {
	switch op.Kind {
	case storage.Kick:
		return min(int(op.MaxJobs), maxMoves)
	case storage.Flush, storage.ListJobs, storage.ImportJobs:
		return maxMoves
	case storage.Take:
		return len(op.Tubes) - 1
	}
	return 0
}

// bringsBody returns whether the answer to an operation can have a body.
func bringsBody(op *storage.Op) bool {
	switch op.Kind {
	case storage.Take, storage.Peek, storage.PeekHead, storage.PeekKey:
		return true
	}
	return op.Kind == storage.Move && op.Move == tube.ReserveJob
}

func sameKind(a, b *storage.Op) bool { return a.Kind == b.Kind && a.Move == b.Move }

// isLong returns whether an operation can take several calls.
func (p *partition) isLong(op *storage.Op) bool {
	switch op.Kind {
	case storage.Kick:
		return op.MaxJobs > maxMoves
	case storage.ReleaseAll:
		return p.holdings.countOf(op.Holder) > maxMoves
	case storage.Tubes, storage.FindKey, storage.Flush, storage.ListJobs:
		return true
	}
	return false
}

// weigh adds the cost of an operation to the call, and resets its answer.
func (c *call) weigh(op *storage.Op) {
	op.Answer = storage.Answer{}
	c.ops += 1 + loadOf(op)
	switch op.Kind {
	case storage.Put:
		c.bytes += len(op.Body)
	case storage.ImportJobs:
		for i := range op.Args.Import.Jobs {
			c.bytes += len(op.Args.Import.Jobs[i].Body)
		}
	}
	op.Answer.Err = c.refusal(op)
}

// makesJobs returns whether an operation needs memory in Redis for new jobs.
func makesJobs(op *storage.Op) bool {
	return op.Kind == storage.Put || op.Kind == storage.BeginImport || op.Kind == storage.ImportJobs
}

// refuses returns whether an operation is answered without being sent.
func (c *call) refuses(op *storage.Op) bool { return c.refusal(op) != nil }

// refusal returns why an operation is not sent; nil if it is sent. Reasons are that Redis has
// no memory for jobs, that it must not get any, or that the job is too large for it.
func (c *call) refusal(op *storage.Op) error {
	switch {
	case !makesJobs(op):
		return nil
	case c.noMemory != nil:
		return c.noMemory
	case c.isTooLarge(op):
		return errTooLarge
	}
	return nil
}

func (c *call) isTooLarge(op *storage.Op) bool {
	if op.Kind == storage.ImportJobs {
		return slices.ContainsFunc(op.Args.Import.Jobs, func(j storage.ImportJob) bool { return len(j.Body) > c.body })
	}
	return len(op.Body) > c.body
}

// sequenceFor returns the sequence of the call into which all these operations can go; nil if
// they must stay in order with others.
func (p *partition) sequenceFor(c *call, ops []storage.Op) *sequence {
	seq := p.sequenceOf(c, &ops[0])
	for i := 1; seq != nil && i < len(ops); i++ {
		if p.sequenceOf(c, &ops[i]) != seq {
			return nil
		}
	}
	return seq
}

func (p *partition) sequenceOf(c *call, op *storage.Op) *sequence {
	switch {
	case isPlainPut(op):
		return &c.put
	case isTaggedPut(op):
		return &c.tagged
	case op.Kind == storage.Take && op.Holder != tube.LeaseHolder:
		return &c.taken
	case p.deletesHeld(c, op):
		return &c.deletesHeld
	}
	return nil
}

// addTo adds operations to a sequence.
func (c *call) addTo(seq *sequence, ops []storage.Op) {
	for i := range ops {
		op := &ops[i]
		if c.weigh(op); !c.refuses(op) {
			*seq = append(*seq, op)
		}
	}
}

// deletesHeld returns whether op deletes a job without metadata that its connection is certain
// to hold.
func (p *partition) deletesHeld(c *call, op *storage.Op) bool {
	if op.Kind != storage.Move || op.Move != tube.Delete {
		return false
	}
	held := p.holdings.heldBy(op.Holder, op.ID, c.number)
	return held != nil && !held.hasMetadata
}

// seal ends the call with the sequences of its units.
func (p *partition) seal(c *call) {
	if c.sealed {
		return
	}
	c.sealed = true
	for _, seq := range []sequence{c.deletesHeld, c.put, c.tagged, c.taken} {
		p.encodeOps(c, seq, nil)
	}
	for _, encode := range c.last {
		encode(c)
	}
	p.encodeEmptySets(c)
}

// encodeOps appends operations; consecutive ones of a kind become one. u is the unit from which
// they come, nil if they are from several.
func (p *partition) encodeOps(c *call, ops []*storage.Op, u *unit) {
	for len(ops) > 0 {
		op, n := ops[0], 1
		switch {
		case c.refuses(op):
		case u != nil && u.limit != nil:
			encodeTakeBefore(c, op, u.limit)
		case isPlainPut(op):
			n = p.encodePuts(c, ops)
		case isTaggedPut(op):
			n = p.encodeTaggedPuts(c, ops)
		case op.Kind == storage.Take && op.Holder == tube.LeaseHolder:
			encodeTakeLease(c, op, nil)
		case op.Kind == storage.Take && op.MaxBytes > 0:
			encodeTakeWithin(c, op, nil)
		case op.Kind == storage.Take && len(op.Tubes) == 1:
			n = encodeTakes(c, ops)
		case op.Kind == storage.Take:
			encodeTakeAny(c, op)
		case p.deletesHeld(c, op):
			n = p.encodeDeletesHeld(c, ops)
		case op.Kind == storage.TubeStats:
			n = p.encodeTubeStats(c, ops)
		default:
			p.encodeOp(c, u, op)
		}
		ops = ops[n:]
	}
}

// alike returns how many of the first operations satisfy like. The first one counts without
// being asked.
func alike(ops []*storage.Op, like func(*storage.Op) bool) int {
	n := 1
	for n < min(len(ops), maxTogether) && like(ops[n]) {
		n++
	}
	return n
}

// isPlainPut returns whether op puts a job without tags.
func isPlainPut(op *storage.Op) bool { return op.Kind == storage.Put && op.Args == nil }

// encodePuts appends the first puts, to one tube, and returns how many.
func (p *partition) encodePuts(c *call, ops []*storage.Op) int {
	n, same := consecutivePuts(ops)
	if ops = ops[:n]; ops[0].Delay > 0 {
		p.encodeDelayedPuts(c, ops)
	} else {
		p.encodeReadyPuts(c, ops, same)
	}
	c.puts += n
	return n
}

// sizeOf returns the size of the bodies of puts, in bytes.
func sizeOf(puts []*storage.Op) (bytes int) {
	for _, op := range puts {
		bytes += len(op.Body)
	}
	return bytes
}

func (p *partition) encodeDelayedPuts(c *call, ops []*storage.Op) {
	first := ops[0]
	c.words("put-delayed", &first.Tube, boolArg(p.refs.isReported(first.Tube)), &first.Delay, sizeOf(ops), len(ops))
	for _, op := range ops {
		c.addRecord(op)
	}
	c.expect((*partition).readPuts, ops...)
}

// encodeReadyPuts appends puts without a delay. If all have the same priority and TTR, their
// jobs become a range.
func (p *partition) encodeReadyPuts(c *call, ops []*storage.Op, same bool) {
	first, urgent := ops[0], 0
	for _, op := range ops {
		if op.Pri < tube.UrgentBelow {
			urgent++
		}
	}
	c.words("put", &first.Tube, boolArg(p.refs.isReported(first.Tube)), len(ops), urgent, sizeOf(ops))
	if !same {
		c.words("", "")
		for _, op := range ops {
			c.words(&op.Pri)
			c.addRecord(op)
		}
		c.expect((*partition).readPuts, ops...)
		return
	}
	terms, read := rangeTerms(first), (*partition).readPuts
	if p.bodies.room() {
		terms += p.instance.name()
		read = (*partition).readOwnRange
	}
	c.words(&first.Pri, terms)
	for _, op := range ops {
		c.addRecord(op)
	}
	c.expect(read, ops...)
}

// rangeTerms is the part of a range's name that describes its jobs, which were put like op.
func rangeTerms(op *storage.Op) string {
	return fmt.Sprintf("%d;%d;", op.Pri, max(op.TTR, tube.MinTTR))
}

// putsTogether returns how many of the first puts form one operation: all to one tube with one
// delay. Without a delay they either all have the same priority and TTR, or are a mix without
// long streaks of the same.
func consecutivePuts(ops []*storage.Op) (n int, same bool) {
	first := ops[0]
	streak := 0 // how many of the last ones have the same priority and TTR
	n = alike(ops, func(op *storage.Op) bool {
		return isPlainPut(op) && op.Delay == first.Delay && op.Tube == first.Tube
	})
	if first.Delay > 0 {
		return n, false
	}
	for i := range n {
		if streak > 0 && (ops[i].Pri != ops[i-1].Pri || ops[i].TTR != ops[i-1].TTR) {
			if streak == i && streak >= schema.RangeFrom {
				return i, true
			}
			streak = 0
		}
		streak++
		if streak >= schema.RangeFrom && streak <= i {
			return i + 1 - streak, false
		}
	}
	return n, streak == n && n >= schema.RangeFrom
}

// encodeTakes appends the first takes from one tube, and returns how many.
func encodeTakes(c *call, ops []*storage.Op) int {
	first, wait := ops[0], false
	n := alike(ops, func(op *storage.Op) bool {
		return op.Kind == storage.Take && op.Holder != tube.LeaseHolder && op.MaxBytes == 0 && len(op.Tubes) == 1 && op.Tubes[0] == first.Tubes[0]
	})
	for _, op := range ops[:n] {
		wait = wait || op.Wait
	}
	c.words("take", &first.Tubes[0], boolArg(wait), n)
	c.expect((*partition).readTakes, ops[:n]...)
	return n
}

// encodeTakeAny appends a take from several tubes.
func encodeTakeAny(c *call, op *storage.Op) {
	c.words("take-any", boolArg(op.Wait), len(op.Tubes))
	c.addTubes(op.Tubes)
	c.expect((*partition).readTakeAny, op)
}

// encodeTakeBefore appends a take of a job that comes before another job.
func encodeTakeBefore(c *call, op *storage.Op, other *head) {
	if op.Holder == tube.LeaseHolder {
		encodeTakeLease(c, op, other)
		return
	}
	if op.MaxBytes > 0 {
		encodeTakeWithin(c, op, other)
		return
	}
	c.words("take-before", other.pri)
	c.addID(other.id)
	c.words(len(op.Tubes))
	c.addTubes(op.Tubes)
	c.expect((*partition).readTakeAny, op)
}

// encodeTakeWithin appends a take of a job with a limited body size, which comes before another
// job if that is not nil.
func encodeTakeWithin(c *call, op *storage.Op, other *head) {
	c.words("take-within", int(op.MaxBytes))
	if other == nil {
		c.words("", "")
	} else {
		c.words(other.pri)
		c.addID(other.id)
	}
	c.words(len(op.Tubes))
	c.addTubes(op.Tubes)
	c.expect((*partition).readTakeAny, op)
}

// encodeDeletesHeld appends the first deletes of jobs of one tube that their connections hold,
// either all in lease sets or none, and returns how many.
func (p *partition) encodeDeletesHeld(c *call, ops []*storage.Op) int {
	first := p.holdings.heldBy(ops[0].Holder, ops[0].ID, c.number)
	first.spent = c.number
	size, inSet := first.size, p.holdings.inSet(first)
	n := alike(ops, func(op *storage.Op) bool {
		if op.Kind != storage.Move || op.Move != tube.Delete {
			return false
		}
		held := p.holdings.heldBy(op.Holder, op.ID, c.number)
		if held == nil || held.hasMetadata || held.tube != first.tube || p.holdings.inSet(held) != inSet {
			return false
		}
		held.spent = c.number
		size += held.size
		return true
	})
	name := p.holdings.tubeOf(first)
	c.words("delete-held", name, boolArg(p.refs.isReported(name)), boolArg(inSet), size, n)
	for _, op := range ops[:n] {
		c.addID(op.ID)
	}
	c.expect((*partition).readDeletesHeld, ops[:n]...)
	return n
}

func boolArg(ok bool) string {
	if ok {
		return "1"
	}
	return "0"
}

func numberArg(n uint64) string { return fmt.Sprintf("%016d", n) }
