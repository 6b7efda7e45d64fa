package redis

import (
	"fmt"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// encodeOp appends an operation that is encoded by itself. u is the unit from which it comes.
func (p *partition) encodeOp(c *call, u *unit, op *storage.Op) {
	switch op.Kind {
	case storage.Move:
		p.encodeMove(c, op)
	case storage.PeekKey, storage.DeleteKey, storage.FindKey, storage.SetPolicy, storage.GetPolicy, storage.Policies:
		encodeTagged(c, u, op)
	case storage.Flush, storage.ListJobs:
		p.encodeMany(c, u, op)
	case storage.BeginImport, storage.ImportJobs:
		p.encodeImport(c, op)
	case storage.Ref:
		p.encodeRef(c, u, op)
	case storage.Kick:
		p.encodeKick(c, u, op)
	case storage.SetPriority:
		c.words("set-priority")
		c.addID(op.ID)
		c.words(&op.Pri)
		c.expect((*partition).readFound, op)
	case storage.Reschedule:
		c.words("reschedule")
		c.addID(op.ID)
		c.words(op.In.Milliseconds())
		c.expect((*partition).readFound, op)
	case storage.Peek:
		c.words("peek")
		c.addID(op.ID)
		c.expect((*partition).readPeek, op)
	case storage.PeekHead:
		c.words("head", op.State.String(), &op.Tube)
		c.expect((*partition).readPeek, op)
	case storage.Pause:
		c.words("pause", &op.Tube, &op.Delay)
		c.expect((*partition).readFound, op)
	case storage.ReleaseAll:
		p.encodeReleaseAll(c, u, op)
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
		op.Answer.Err = fmt.Errorf("%w: no such operation: %d", storage.ErrUnavailable, op.Kind)
	}
}

// encodeMove appends a move of one job. It says whether the connection holds the job.
func (p *partition) encodeMove(c *call, op *storage.Op) {
	if op.Holder == tube.LeaseHolder {
		encodeMoveLeased(c, op)
		return
	}
	if finishes(op.Move) && p.holdings.lost(op.Holder, op.ID) {
		op.Answer.NotFound = true
		return
	}
	held := p.holdings.heldBy(op.Holder, op.ID, c.number)
	c.words("move", op.Move.String(), boolArg(held != nil))
	c.addID(op.ID)
	c.words(&op.Pri, &op.Delay)
	if held != nil {
		p.holdings.splitSet(held)
		if op.Move == tube.Release || op.Move == tube.Bury {
			held.spent = c.number
		}
	}
	c.expect((*partition).readMove, op)
}

// finishes returns whether only the holder of a job can make a move.
func finishes(m tube.Move) bool {
	switch m {
	case tube.Delete, tube.Release, tube.Bury, tube.Touch:
		return true
	}
	return false
}

// encodeKick appends a kick, or the next part of a kick that is too long for one call. The
// first part decides from which state it kicks.
func (p *partition) encodeKick(c *call, u *unit, op *storage.Op) {
	if !p.isLong(op) {
		c.words("kick", &op.Tube, &op.MaxJobs, "")
		c.expect((*partition).readKick, op)
		return
	}
	part := min(int(op.MaxJobs)-u.partial.jobs, c.stepSize(&p.batchSizes.kick))
	c.words("kick", op.Tube, part, u.kick.from)
	c.expect(readKickPart(u, part), op)
}

// encodeRef counts the connections that begin or end to use or watch tubes, once, and updates
// Redis if that cannot wait.
func (p *partition) encodeRef(c *call, u *unit, op *storage.Op) {
	progress := &u.refs
	progress.seen++
	if progress.seen <= progress.counted {
		return // counted for a call that was not carried out; these tubes are marked to be reported
	}
	progress.counted = progress.seen
	for _, name := range op.Tubes {
		if p.refs.add(name, op.Role, op.Delta) {
			p.encodeTubeRefs(c, name)
		}
	}
}

// encodeReleaseAll gives back what a closed connection holds. If that is much, it takes several
// calls, between which others are served.
func (p *partition) encodeReleaseAll(c *call, u *unit, op *storage.Op) {
	p.holdings.forgetHolder(op.Holder)
	p.encodeGiveBackSome(c, op.Holder, u.againLater)
}

// encodeTubeStats appends the first requests for stats of tubes, and returns how many.
func (p *partition) encodeTubeStats(c *call, ops []*storage.Op) int {
	n := alike(ops, func(op *storage.Op) bool { return op.Kind == storage.TubeStats })
	c.words("tube-stats", n)
	here := make([]refCounts, n)
	for i, op := range ops[:n] {
		here[i] = p.refs.counts(op.Tube)
		c.words(&op.Tube)
	}
	c.expect(readTubeStats(here), ops[:n]...)
	return n
}

// encodeTubes requests the next part of the list of tubes.
func encodeTubes(c *call, u *unit, op *storage.Op) {
	c.words("tubes", u.listing.next(), maxTubes)
	c.expect(readTubes(u), op)
}
