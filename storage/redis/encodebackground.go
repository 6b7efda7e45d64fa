package redis

import (
	"slices"
	"sync/atomic"

	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

const (
	// leastDue is how many due things the concurrent ticks do at least, all of them together:
	// being late is worse than making others wait a millisecond longer. tickLeast is the
	// minimum for each of them.
	leastDue  = 64
	tickLeast = 4

	// maxTubesReported limits the tubes whose refs are reported in one call.
	maxTubesReported = 250
)

// encodeHeartbeat sends the heartbeat, declares silent instances dead, and exchanges the
// highest ids.
func (p *partition) encodeHeartbeat(c *call) {
	now, home := p.clock.now(), boolArg(schema.PartitionOf(tube.Default, p.of) == p.number)
	dead := p.heartbeat.silent(now)
	args := []any{"beat", maxMoves, home, c.created, len(dead)}
	for name, seen := range dead {
		args = append(args, name, seen.beat, boolArg(now.Sub(seen.since) >= 3*schema.HeartbeatTimeout))
	}
	c.add(p.readHeartbeat, args...)
	c.add(p.readIDs, "ids", p.ids.least())
}

// encodeReclaim does the next part of the work about an instance that was declared dead.
func (p *partition) encodeReclaim(c *call, inst string, from int64) {
	c.add(p.readReclaimed(inst), "reclaim", inst, c.stepSize(&p.batchSizes.reclaim), from)
}

// encodeResign gives back the next part of what the instance holds.
func encodeResign(c *call, from *atomic.Int64) {
	c.add(func(r *reply) { from.Store(r.int64()) }, "resign", maxMoves, from.Load())
}

// encodeTick does what is due. It comes last in the call, because operations before it need not
// know which jobs expire in it. All partitions whose ticks are under way share one step size:
// they can be on one Redis, and then others wait for all of them.
func (p *partition) encodeTick(c *call) {
	c.last = append(c.last, func(c *call) {
		c.add(p.readTick, "tick", max(max(c.stepSize(&p.batchSizes.tick), leastDue)/max(int(p.ticks.Load()), 1), tickLeast))
	})
}

// encodePassWakeUp passes a wake-up that no client here needs to another instance.
func encodePassWakeUp(c *call, tube string) { c.add(skipNumber, "pass-wakeup", tube) }

// encodeBest requests the best ready job of a group of tubes. With wait, Redis sends this
// instance a wake-up for the next one if there is none.
func encodeBest(c *call, group *tubeGroup, wait bool, h *head) {
	c.add(h.read, "best", boolArg(wait), len(group.tubes))
	c.ops += len(group.tubes)
	c.addTubes(group.tubes)
}

// encodeChangedRefs reports tubes whose refs have changed.
func (p *partition) encodeChangedRefs(c *call) {
	p.refs.findChanged(p.listener.Waiting)
	p.encodeUnreportedRefs(c)
}

// encodeUnreportedRefs reports tubes that findChanged has found. What is too much for one call
// is reported by the next ones.
func (p *partition) encodeUnreportedRefs(c *call) {
	for _, name := range p.refs.nextToReport(maxTubesReported) {
		p.encodeTubeRefs(c, name)
	}
	if len(p.refs.toReport) > 0 {
		p.submit(&unit{background: p.encodeUnreportedRefs})
	}
}

// encodeTubeRefs reports how many connections here use, watch and wait for a tube.
func (p *partition) encodeTubeRefs(c *call, name string) {
	waiting := 0
	if p.refs.counts(name).watching > 0 {
		waiting = p.listener.Waiting(name)
	}
	using, watching := p.refs.markReported(name, waiting)
	c.reportedTubes = append(c.reportedTubes, name)
	c.add(skipNumber, "set-refs", name, using, watching, waiting)
}

// encodeGiveBackSome gives back what a connection holds, as much as fits one call. more is
// called if something is left.
func (p *partition) encodeGiveBackSome(c *call, h tube.Holder, more func()) {
	some := p.holdings.firstOf(h, maxMoves)
	if len(some) == 0 {
		return
	}
	p.encodeGiveBack(c, some)
	c.expect(afterGiveBack(h, more))
}

// encodeGiveBack gives back those of the jobs that this instance still holds by the same
// reservations: another client here can have reserved a job again since.
func (p *partition) encodeGiveBack(c *call, all []reservation) {
	all = slices.DeleteFunc(slices.Clone(all), func(r reservation) bool { return !p.holdings.isCurrent(r) })
	if len(all) == 0 {
		return
	}
	c.add(p.readGivenBack(all), "give-back", len(all))
	for _, r := range all {
		c.addID(r.id)
		held := p.holdings.get(r.id)
		p.holdings.splitSet(held)
		held.spent = c.number
	}
	c.ops += len(all)
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
