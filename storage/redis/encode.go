package redis

import (
	"fmt"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// How units become arguments of the script. Here: which operations of a unit go into a call,
// and how consecutive ones are encoded together. puts, takes, moves, stats and their neighbours
// encode each kind of operation, and decode its answer.
//
// The problem: a call costs Redis as much as a dozen operations, and an operation of the script for many jobs a fraction of as
// many for one each. Clients send one or a few operations at a time; what can be joined comes from different connections.
//
// So a unit whose operations are all of one kind (a form of puts, takes, deletes of jobs that are held) goes into a [sequence] of the
// call, with those of other units: no connection can see their order. All other units are encoded where they stand, and only
// neighbours are joined. Sequences come last (seal).
//
// The invariants: the operations of one unit are carried out in their order; and what depends on the answer to an earlier operation
// of the unit is in a later call (until), as nothing of the call is known while it is encoded. Whatever is appended here has its
// decoder appended by expect in the same order: the reply is read from the front.

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
// that returns a body there are only others of its kind. So what is cut, see lua/main.lua, is
// requested again before the operations that follow it are carried out, and what a connection
// does with a job that it takes is in a later call.
func (p *partition) until(ops []storage.Op, from int) int {
	much, bytes := 0, 0
	for i := from; i < len(ops); i++ {
		much += loadOf(&ops[i])
		bytes += dataOf(&ops[i])
		switch {
		case ops[i].Kind == storage.ReleaseAll && i > from:
			return i
		case p.isLong(&ops[i]):
			return i + 1
		case much >= maxMoves, bytes >= maxBytes:
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

// dataOf returns the size of the checkpoint or the result of a move, and at most how large a checkpoint is that is read.
func dataOf(op *storage.Op) int {
	switch {
	case op.Kind == storage.GetCheckpoint:
		return tube.MaxCheckpoint
	case op.Args == nil:
		return 0
	}
	return len(op.Args.Data)
}

func loadOf(op *storage.Op) int {
	switch op.Kind {
	case storage.Kick:
		return min(int(op.MaxJobs), maxMoves)
	case storage.Flush, storage.ListJobs, storage.ListGroups, storage.ImportJobs, storage.ListRecords, storage.DueRecords,
		storage.ListMembers, storage.CancelBatch, storage.SettleBatch, storage.ListEnded, storage.AddTallies:
		return maxMoves
	case storage.Take:
		return len(op.Tubes) - 1
	case storage.ReadTallies:
		return min(op.Args.Tallies.Count, op.Args.Tallies.Period.Kept())
	}
	return 0
}

// bringsBody returns whether the answer to an operation can have a body.
func bringsBody(op *storage.Op) bool {
	switch op.Kind {
	case storage.Take, storage.Peek, storage.PeekHead, storage.PeekKey, storage.GetCheckpoint:
		return true
	}
	return op.Kind == storage.Move && op.Move.Brings()
}

func sameKind(a, b *storage.Op) bool { return a.Kind == b.Kind && a.Move == b.Move }

// isLong returns whether an operation can take several calls.
func (p *partition) isLong(op *storage.Op) bool {
	switch op.Kind {
	case storage.Kick:
		return op.MaxJobs > maxMoves
	case storage.ReleaseAll:
		return p.holdings.countOf(op.Holder) > maxMoves
	case storage.Tubes, storage.FindKey, storage.Flush, storage.ListJobs, storage.ListGroups, storage.ListMembers, storage.CancelBatch, storage.SettleBatch,
		storage.ListEnded:
		return true
	}
	return false
}

// weigh adds the cost of an operation to the call, and resets its answer.
func (c *call) weigh(op *storage.Op) {
	op.Answer = storage.Answer{}
	c.ops, c.bytes = c.ops+1+loadOf(op), c.bytes+dataOf(op)
	switch op.Kind {
	case storage.Put:
		c.bytes += len(op.Body)
	case storage.Move:
		c.storesMuch = c.storesMuch || storesMuch(op)
	case storage.SetSchedule, storage.PutScheduled:
		c.bytes += len(op.Body) + len(op.Args.Schedule.Body)
	case storage.ImportJobs:
		for i := range op.Args.Import.Jobs {
			c.bytes += len(op.Args.Import.Jobs[i].Body)
		}
	}
	op.Answer.Err = c.refusal(op)
}

// needsMemory returns whether an operation needs memory in Redis for new jobs, for schedules, for tallies, for a checkpoint or for a long result.
func needsMemory(op *storage.Op) bool {
	switch op.Kind {
	case storage.Move:
		return storesMuch(op)
	case storage.Put, storage.BeginImport, storage.ImportJobs, storage.SetSchedule, storage.PutScheduled, storage.AddTallies:
		return true
	}
	return false
}

// storesMuch returns whether a move saves a checkpoint, or has a result that needs more memory than the job, as a rule.
func storesMuch(op *storage.Op) bool {
	n := dataOf(op)
	return n > 1024 || n > 0 && op.Move == tube.SaveCheckpoint
}

// refuses returns whether an operation is answered without being sent.
func (c *call) refuses(op *storage.Op) bool { return c.refusal(op) != nil }

// lateFor is how long after a pause of this instance commands can arrive that were sent before it.
const lateFor = 2 * time.Second

// errLate is why a checkpoint is not saved after such a pause.
var errLate = fmt.Errorf("%w: this server was paused for so long that another one may have saved a newer checkpoint", storage.ErrUnavailable)

// refusal returns why an operation is not sent; nil if it is sent. Reasons are that Redis has
// no memory for jobs, that it must not get any, that the job is too large for it, or that the operation may have waited during a pause
// of this instance: the owner of a lease that had no reply may have saved a newer checkpoint through another instance.
func (c *call) refusal(op *storage.Op) error {
	switch {
	case c.revived && op.Kind == storage.Move && op.Move == tube.SaveCheckpoint && op.Holder == tube.LeaseHolder:
		return errLate
	case !needsMemory(op):
		return nil
	case c.noMemory != nil:
		return c.noMemory
	case c.isTooLarge(op):
		return errTooLarge
	}
	return nil
}

func (c *call) isTooLarge(op *storage.Op) bool {
	switch op.Kind {
	case storage.SetSchedule, storage.PutScheduled:
		return max(len(op.Body), len(op.Args.Schedule.Body)) > c.body
	case storage.ImportJobs:
		return slices.ContainsFunc(op.Args.Import.Jobs, func(j storage.ImportJob) bool { return len(j.Body) > c.body })
	case storage.Move:
		return dataOf(op) > c.body
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
	case op.Kind == storage.Put:
		return &c.putsAs[formOf(op)]
	case op.Kind == storage.Take:
		return &c.taken
	case p.deletesHeld(c, op), deletesLeased(op):
		return &c.deletes
	}
	return nil
}

// addTo adds operations to a sequence, except those that the call refuses.
func (c *call) addTo(seq *sequence, ops []storage.Op) {
	for i := range ops {
		op := &ops[i]
		if c.weigh(op); !c.refuses(op) {
			*seq = append(*seq, op)
		}
	}
}

// seal ends the call with the sequences of its units.
func (p *partition) seal(c *call) {
	if c.sealed {
		return
	}
	c.sealed = true
	p.sortDeletes(c.deletes)
	c.sequences.each(func(seq *sequence) { p.encodeOps(c, *seq, nil) })
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
		case op.Kind == storage.Put:
			n = p.encodePuts(c, ops)
		case takesLeaseOf(op):
			n = encodeLeases(c, ops)
		case op.Kind == storage.Take && op.Holder == tube.LeaseHolder:
			c.addFirst(op)
			encodeTakeLease(c, op, nil)
		case op.Kind == storage.Take && op.MaxBytes > 0:
			c.addFirst(op)
			encodeTakeWithin(c, op, nil)
		case op.Kind == storage.Take && len(op.Tubes) == 1:
			n = encodeTakes(c, ops)
		case op.Kind == storage.Take:
			c.addFirst(op)
			encodeTakeAny(c, op)
		case p.deletesHeld(c, op):
			n = p.encodeDeletesHeld(c, ops)
		case deletesLeased(op):
			n = encodeDeletesLeased(c, ops)
		case op.Kind == storage.TubeStats:
			n = p.encodeTubeStats(c, u, ops)
		default:
			p.encodeOp(c, u, op)
		}
		ops = ops[n:]
	}
}

// encodeEmptySets reports lease sets that are empty, in a call that is made anyway.
func (p *partition) encodeEmptySets(c *call) {
	if len(p.holdings.emptySets) == 0 || c.isEmpty() {
		return
	}
	n := min(len(p.holdings.emptySets), maxTogether)
	c.emptySets, p.holdings.emptySets = p.holdings.emptySets[:n:n], p.holdings.emptySets[n:]
	c.words("drop-sets", n)
	for i := range c.emptySets {
		c.words(c.emptySets[i])
	}
}

// encodeOp appends an operation that is encoded by itself. u is the unit from which it comes.
func (p *partition) encodeOp(c *call, u *unit, op *storage.Op) {
	switch op.Kind {
	case storage.Move:
		p.encodeMove(c, op)
	case storage.PeekKey, storage.DeleteKey, storage.FindKey, storage.SetPolicy, storage.GetPolicy, storage.Policies:
		encodeTagged(c, u, op)
	case storage.Flush, storage.ListJobs:
		p.encodeMany(c, u, op)
	case storage.SetGroup, storage.GetGroup, storage.GroupStats, storage.ListGroups, storage.PauseGroup:
		p.encodeGroups(c, u, op)
	case storage.GetRecord, storage.ListRecords, storage.DueRecords:
		p.encodeNamed(c, op)
	case storage.SetSchedule, storage.PutScheduled, storage.DeleteSchedule:
		p.encodeSchedules(c, op)
	case storage.SealBatch, storage.ListMembers, storage.CancelBatch, storage.SettleBatch:
		p.encodeJobBatches(c, u, op)
	case storage.BeginImport, storage.ImportJobs:
		p.encodeImport(c, op)
	case storage.AddTallies, storage.ReadTallies:
		encodeTallies(c, op)
	case storage.WaitEnded, storage.ListEnded:
		p.encodeEnded(c, u, op)
	case storage.Ref:
		p.encodeRef(c, u, op)
	case storage.Kick:
		p.encodeKick(c, u, op)
	case storage.Peek, storage.PeekHead:
		encodePeek(c, op)
	case storage.GetCheckpoint:
		encodeGetCheckpoint(c, op)
	case storage.ReleaseAll:
		p.encodeReleaseAll(c, u, op)
	case storage.Replay:
		c.keepCheckpoint(op)
		c.words("replay")
		c.addID(op.ID)
		c.expect((*partition).readFound, op)
	case storage.MoveJob:
		c.words("move-job")
		c.addID(op.ID)
		c.words(op.Args.To)
		c.expect((*partition).readFound, op)
	case storage.ListHung:
		encodeListHung(c, op)
	case storage.JobStats:
		c.words("job-stats")
		c.addID(op.ID)
		c.expect((*partition).readJobStats, op)
	case storage.Stats:
		c.words("stats", schema.HeartbeatTimeout.Milliseconds())
		c.expect((*partition).readStats, op)
	case storage.Tubes:
		encodeTubes(c, u, op)
	default:
		encodeChange(c, op)
	}
}

// encodeChange appends an operation that only changes one job or tube.
func encodeChange(c *call, op *storage.Op) {
	spec := op.Kind.Spec()
	if spec.Change == nil {
		op.Answer.Err = fmt.Errorf("%w: no such operation: %d", storage.ErrUnavailable, op.Kind)
		return
	}
	c.words(spec.Name)
	for _, arg := range spec.Args {
		switch arg {
		case storage.FieldID:
			c.addID(op.ID)
		case storage.FieldTube:
			c.words(&op.Tube)
		case storage.FieldPri:
			c.words(&op.Pri)
		case storage.FieldDelay:
			c.words(&op.Delay)
		case storage.FieldIn:
			c.words(op.In.Milliseconds())
		}
	}
	c.expect((*partition).readFound, op)
}
