package redis

import (
	"slices"
	"strconv"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/lua"
	"redstalk/tube"
)

// encodeMove appends a move of one job. It says whether the connection holds the job.
func (p *partition) encodeMove(c *call, op *storage.Op) {
	if op.Move == tube.Expire {
		p.encodeTakeBack(c, op)
		return
	}
	if op.Holder == tube.LeaseHolder {
		encodeMoveLeased(c, op)
		return
	}
	if finishes(op.Move) && p.hasLost(c, op.Holder, op.ID) {
		op.Answer.NotFound = true
		return
	}
	held := p.holdings.heldBy(op.Holder, op.ID, c.number)
	if held != nil && ends(op.Move) && (p.keeping || held.metadata == otherMetadata) {
		c.addEnding(op, strconv.FormatInt(p.deliveredAt(held), 10))
	}
	if op.Move == tube.KickJob {
		c.keepCheckpoint(op)
	}
	if held != nil {
		p.addHeld(c, op, held)
	}
	reports := c.addReports(op)
	c.addReason(op)
	c.words("move", op.Move.String(), boolArg(held != nil))
	c.addID(op.ID)
	c.words(&op.Pri, &op.Delay)
	if held != nil {
		p.holdings.splitSet(held)
		if reports {
			p.holdings.addMetadata(held)
		}
		if op.Move == tube.Release || op.Move == tube.Snooze || op.Move == tube.Bury {
			held.spent = c.number
		}
		c.expect((*partition).readHeldMove, op)
		return
	}
	c.expect((*partition).readMove, op)
}

// hasLost returns whether h has lost a job, at the latest by what is encoded in the call so far.
func (p *partition) hasLost(c *call, h tube.Holder, id uint64) bool {
	if p.holdings.lost(h, id) {
		return true
	}
	held := p.holdings.get(id)
	return c.takenBack[id] && held != nil && held.holder == h
}

// encodeTakeBack appends an expire, whoever holds the job. Later operations of the same call find that a connection here has lost it.
func (p *partition) encodeTakeBack(c *call, op *storage.Op) {
	c.addReason(op)
	c.words("move", op.Move.String(), boolArg(false))
	c.addID(op.ID)
	c.words(&op.Pri, &op.Delay)
	if held := p.holdings.get(op.ID); held != nil {
		p.holdings.splitSet(held)
		held.spent = c.number
	}
	if c.takenBack == nil {
		c.takenBack = make(map[uint64]bool)
	}
	c.takenBack[op.ID] = true
	c.expect((*partition).readMove, op)
}

// addReason appends, before a move, why a job fails by it and who held it, as far as that is known.
func (c *call) addReason(op *storage.Op) {
	a := op.Args
	if a != nil && (a.Reason != "" || a.By != "" && op.Move.Failed() != tube.NotFailed) {
		c.words("because", a.Reason, a.By)
	}
}

// addHeld appends, before a touch of a job that is held for very long, since when it is.
func (p *partition) addHeld(c *call, op *storage.Op, held *holding) {
	if op.Move == tube.Touch && tube.IsHung(p.clock.now().Sub(p.holdings.since(held)), uint32(held.ttr/time.Second), false) {
		c.words("held", strconv.FormatInt(p.deliveredAt(held), 10))
	}
}

// finishes returns whether only the holder of a job can make a move.
func finishes(m tube.Move) bool {
	switch m {
	case tube.Delete, tube.Finish, tube.Release, tube.Snooze, tube.Bury, tube.Touch, tube.SaveCheckpoint:
		return true
	}
	return false
}

// readMove reads the answer of a move, and updates the holdings.
func (p *partition) readMove(r *reply, ops []*storage.Op) {
	op := ops[0]
	switch r.verdict(op) {
	case lua.Refused:
		op.Answer.NotFound = true
		return
	case lua.CutOff:
		return
	case lua.NotKept:
		op.Answer.Result = &storage.Result{NotKept: true}
		return
	case lua.Elsewhere:
		op.Answer.NotFound, op.Answer.Result = true, &storage.Result{Elsewhere: r.text()}
		return
	}
	switch reserved := r.found(); {
	case op.Move.Brings():
		id, job := p.nextTaken(r)
		p.take(r, op, id, job, nil)
	case op.Move == tube.Expire:
		p.holdings.takeBack(op.ID)
	case reserved:
		p.holdings.touch(op.ID, r.sent)
	default:
		if held := p.holdings.get(op.ID); held != nil && held.holder == op.Holder && ends(op.Move) {
			p.noteRun(r, held)
		}
		p.holdings.drop(op.ID)
	}
}

// readHeldMove is readMove of a job that the connection has held as far as is known here. If Redis refuses the move, another instance has deleted it.
func (p *partition) readHeldMove(r *reply, ops []*storage.Op) {
	p.readMove(r, ops)
	op := ops[0]
	if held := p.holdings.get(op.ID); op.Answer.NotFound && finishes(op.Move) && held != nil && held.holder == op.Holder {
		p.holdings.drop(op.ID)
	}
}

// deletesHeld returns whether op deletes a job that its connection is certain to hold, and that has
// no metadata but perhaps a group.
func (p *partition) deletesHeld(c *call, op *storage.Op) bool {
	if op.Kind != storage.Move || op.Move != tube.Delete {
		return false
	}
	held := p.holdings.heldBy(op.Holder, op.ID, c.number)
	return held != nil && held.metadata != otherMetadata
}

// sortDeletes orders deletes of jobs that are held so that those which can be encoded together are side
// by side.
func (p *partition) sortDeletes(ops []*storage.Op) {
	sort := func(op *storage.Op) (n int) {
		held := p.holdings.get(op.ID)
		if held == nil || op.Holder == tube.LeaseHolder {
			return -1
		}
		if held.metadata != 0 {
			n = 2
		}
		if p.holdings.inSet(held) {
			n++
		}
		return n
	}
	slices.SortStableFunc(ops, func(a, b *storage.Op) int { return sort(a) - sort(b) })
}

// encodeDeletesHeld appends the first deletes of jobs of one tube that their connections hold,
// either all in lease sets or none, and returns how many.
func (p *partition) encodeDeletesHeld(c *call, ops []*storage.Op) int {
	first := p.holdings.heldBy(ops[0].Holder, ops[0].ID, c.number)
	first.spent = c.number
	size, inSet := first.size, p.holdings.inSet(first)
	groups := []string(nil)
	if first.metadata != 0 {
		groups = append(groups, p.holdings.groupOf(first))
	}
	n := alike(ops, func(op *storage.Op) bool {
		if op.Kind != storage.Move || op.Move != tube.Delete {
			return false
		}
		held := p.holdings.heldBy(op.Holder, op.ID, c.number)
		if held == nil || held.metadata == otherMetadata || held.tube != first.tube || p.holdings.inSet(held) != inSet || (held.metadata != 0) != (groups != nil) {
			return false
		}
		if groups != nil {
			groups = append(groups, p.holdings.groupOf(held))
		}
		held.spent = c.number
		size += held.size
		return true
	})
	name := p.holdings.tubeOf(first)
	if groups == nil {
		c.words("delete-held", name, boolArg(p.refs.isReported(name)), boolArg(inSet), size, p.aboutHeld(ops[:n]), n)
	} else {
		c.words("grouped-delete", name, boolArg(p.refs.isReported(name)), boolArg(inSet), size, p.aboutHeld(ops[:n]), n)
	}
	for _, op := range ops[:n] {
		c.addID(op.ID)
	}
	for _, group := range groups {
		c.words(group)
	}
	c.expect((*partition).readDeletesHeld, ops[:n]...)
	return n
}

// readDeletesHeld reads a sequence of deletes of jobs that their connections held.
func (p *partition) readDeletesHeld(r *reply, ops []*storage.Op) {
	each := ""
	if !r.found() {
		each = r.text()
	}
	for i, op := range ops {
		op.Answer.NotFound = each != "" && each[min(i, len(each)-1)] == '0'
		if held := p.holdings.get(op.ID); held != nil && !op.Answer.NotFound {
			p.flow.of(p.holdings.tubeOf(held)).Deletes++
			p.noteRun(r, held)
		}
		p.holdings.drop(op.ID)
	}
}

// noteRun counts how long a job has run that its holder has deleted.
func (p *partition) noteRun(r *reply, held *holding) {
	p.flow.of(p.holdings.tubeOf(held)).Runs.Observe(r.sent.Sub(p.holdings.since(held)))
}

// encodeKick appends a kick, or the next part of a kick that is too long for one call. The
// first part decides from which state it kicks.
func (p *partition) encodeKick(c *call, u *unit, op *storage.Op) {
	c.keepCheckpoint(op)
	if !p.isLong(op) {
		c.words("kick", &op.Tube, &op.MaxJobs, "")
		c.expect((*partition).readKick, op)
		return
	}
	part := min(int(op.MaxJobs)-u.partial.jobs, c.stepSize(&p.stepSizes.kick))
	c.words("kick", op.Tube, part, u.kick.from)
	c.expect(readKickPart(u, part), op)
}

func (p *partition) readKick(r *reply, ops []*storage.Op) { ops[0].Answer.Count, _ = r.int(), r.text() }

// readKickPart reads the answer to a part of a kick that takes several calls. The part had this
// many jobs at most.
func readKickPart(u *unit, part int) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		n, state := r.int(), r.text()
		u.partial.add(ops[0], n)
		if n == part && u.partial.jobs < int(ops[0].MaxJobs) {
			u.kick.from = state
			u.again()
			return
		}
		ops[0].Answer.Count = u.partial.jobs
		u.partial, u.kick = partial{}, kickProgress{}
	}
}

// deletesLeased returns whether op deletes a job on behalf of a client with a lease token.
func deletesLeased(op *storage.Op) bool {
	return op.Kind == storage.Move && op.Move == tube.Delete && op.Holder == tube.LeaseHolder
}

// encodeDeletesLeased appends the first such deletes, and returns how many.
func encodeDeletesLeased(c *call, ops []*storage.Op) int {
	n := alike(ops, deletesLeased)
	c.words("delete-leased", aboutLeased(ops[:n]), n)
	for _, op := range ops[:n] {
		c.words(strconv.FormatUint(op.Args.Lease, 10))
		c.addID(op.ID)
	}
	c.expect((*partition).readDeletesLeased, ops[:n]...)
	return n
}

// readDeletesLeased reads the answers of delete-leased.
func (p *partition) readDeletesLeased(r *reply, ops []*storage.Op) {
	for _, op := range ops {
		switch r.int() {
		case 0:
			op.Answer.NotFound = true
		case 2:
			run, f := r.ms(), p.flow.of(r.text())
			f.Deletes++
			f.Runs.Observe(run)
		}
	}
}

// encodeMoveLeased appends a move on behalf of a client with a lease token.
func encodeMoveLeased(c *call, op *storage.Op) {
	if ends(op.Move) {
		c.addEnding(op, "")
	}
	c.addReports(op)
	c.addReason(op)
	c.words("move-leased", op.Move.String(), strconv.FormatUint(op.Args.Lease, 10))
	c.addID(op.ID)
	c.words(&op.Pri, &op.Delay)
	c.expect((*partition).readMoveLeased, op)
}
