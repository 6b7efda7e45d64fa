package redis

import (
	"slices"
	"sync/atomic"

	"redstalk/storage"
	"redstalk/tube"
)

// encodeReleaseAll gives back what a closed connection holds. If that is much, it takes several
// calls, between which others are served.
func (p *partition) encodeReleaseAll(c *call, u *unit, op *storage.Op) {
	p.holdings.forgetHolder(op.Holder)
	p.encodeGiveBackSome(c, op.Holder, u.againLater)
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

// afterGiveBack calls more if a connection still holds something.
func afterGiveBack(h tube.Holder, more func()) func(*partition, *reply, []*storage.Op) {
	return func(p *partition, _ *reply, _ []*storage.Op) {
		if p.holdings.countOf(h) > 0 {
			more()
		}
	}
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

func (p *partition) readGivenBack(all []reservation) func(*reply) {
	return func(r *reply) {
		r.found()
		for _, reserved := range all {
			p.holdings.drop(reserved.id)
		}
	}
}

// giveBack queues a call that gives back reservations of which no client knows.
func (p *partition) giveBack(all []reservation) {
	p.submit(&unit{mustRun: true, background: func(c *call) { p.encodeGiveBack(c, all) }})
}

// releaseAllLater gives back what a closed connection holds, in calls of their own.
func (p *partition) releaseAllLater(h tube.Holder) {
	p.holdings.forgetHolder(h)
	p.submit(&unit{mustRun: true, background: func(c *call) {
		p.encodeGiveBackSome(c, h, func() { p.releaseAllLater(h) })
	}})
}

// encodeResign gives back the next part of what the instance holds.
func encodeResign(c *call, from *atomic.Int64) {
	c.add(func(r *reply) { from.Store(r.int64()) }, "resign", maxMoves, from.Load())
}

// encodeReclaim does the next part of the work about an instance that was declared dead.
func (p *partition) encodeReclaim(c *call, inst string, from int64) {
	c.add(p.readReclaimed(inst), "reclaim", inst, c.stepSize(&p.batchSizes.reclaim), from)
}

// reclaimed is what the script answers when nothing is left to do about an instance.
const reclaimed = -2

// readReclaimed reads the progress with an instance that was declared dead.
func (p *partition) readReclaimed(inst string) func(*reply) {
	return func(r *reply) {
		if next := r.int64(); next != reclaimed && r.err == nil {
			p.reclaimLater(inst, next)
		}
	}
}

// reclaimLater queues the next part of the work about an instance that was declared dead. Calls
// of others come in between. If it fails, another instance does it after some time.
func (p *partition) reclaimLater(inst string, from int64) {
	p.submit(&unit{background: func(c *call) { p.encodeReclaim(c, inst, from) }})
}
