package redis

import (
	"slices"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// What happens to units that are answered with an error although the outcome of their call is
// unknown, or that are never sent: jobs that were reserved for them are given back, and
// connections that came or went are still counted.

// retryMustRunAfter is when background work that must run is tried again after Redis has
// refused it.
const retryMustRunAfter = time.Second

// giveUp answers the units of a call with an error. The call was not carried out, and never
// will be.
func (p *partition) giveUp(c *call, err error) {
	p.abandon(c, classify(err))
	p.cancel(c)
}

// abandon answers the units of the call with an error. From now on the call only asks for its
// outcome.
func (p *partition) abandon(c *call, err error) {
	c.kind = void
	copies := make(map[*storage.Op]*storage.Op)
	var waiting []*unit
	for _, u := range c.units {
		if u.abandoned || u.mustRun {
			continue
		}
		waiting = append(waiting, &unit{batch: u.batch, background: u.background, after: u.after, at: u.at, partial: u.partial})
		u.abandoned = true
		if u.batch == nil {
			continue
		}
		mine := cloneOps(u.batch.Ops)
		for i := range mine {
			copies[&u.batch.Ops[i]] = &mine[i]
		}
		u.batch = &storage.Batch{Ops: mine}
	}
	for _, s := range c.steps {
		for i, op := range s.ops {
			if copied := copies[op]; copied != nil {
				s.ops[i] = copied
			}
		}
	}
	for _, u := range waiting {
		u.end(err)
	}
}

// cloneOps copies operations whose memory their connection is about to reuse, while the copies
// are still under way.
func cloneOps(ops []storage.Op) []storage.Op {
	all := slices.Clone(ops)
	for i := range all {
		all[i].Tubes = slices.Clone(all[i].Tubes)
	}
	return all
}

// giveBackUndelivered gives back what was reserved for units that were answered with an error,
// or are about to be.
func (p *partition) giveBackUndelivered(units ...*unit) {
	var undelivered []reservation
	for _, u := range units {
		for _, op := range p.holding(u) {
			undelivered = append(undelivered, p.holdings.get(op.Answer.ID).reservation)
		}
	}
	if len(undelivered) > 0 {
		p.log.Info("jobs that were reserved but not delivered to a client are given back", "jobs", len(undelivered))
	}
	for part := range slices.Chunk(undelivered, maxMoves) {
		p.giveBack(part)
	}
}

// holding returns the operations of a unit that have reserved a job which their connection
// still holds.
func (p *partition) holding(u *unit) []*storage.Op {
	return slices.DeleteFunc(u.given(), func(op *storage.Op) bool {
		held := p.holdings.get(op.Answer.ID)
		return held == nil || held.holder != op.Holder
	})
}

// cancel ends a call that was not carried out, and never will be. Work that must run is queued
// again.
func (p *partition) cancel(c *call) {
	c.reply = nil
	p.restoreReports(c)
	p.leaveStaged(c)
	for _, u := range c.units {
		if u.mustRun && !u.abandoned {
			u.abandoned = true
			again := *u
			again.abandoned = false
			time.AfterFunc(retryMustRunAfter, func() { p.submit(&again) })
		}
		p.applyUnsent(u, u.begun)
	}
	p.giveBackUndelivered(c.units...)
}

// applyUnsent counts the connections that come or go in the operations of u from that one on,
// which were not carried out.
func (p *partition) applyUnsent(u *unit, from int) {
	if u.batch == nil {
		return
	}
	seen := u.refs.before
	if from == u.at {
		seen = u.refs.seen
	}
	for i := from; i < len(u.batch.Ops); i++ {
		switch op := &u.batch.Ops[i]; op.Kind {
		case storage.Ref:
			if seen++; seen <= u.refs.counted {
				continue
			}
			for _, name := range op.Tubes {
				p.refs.add(name, op.Role, op.Delta)
				p.refs.markUnreported(name)
			}
		case storage.ReleaseAll:
			p.releaseAllLater(op.Holder)
		}
	}
}

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
// reservations: another client here can have reserved a job again since, also in this very call if it was taken back.
func (p *partition) encodeGiveBack(c *call, all []reservation) {
	all = slices.DeleteFunc(slices.Clone(all), func(r reservation) bool { return !p.holdings.isCurrent(r) || c.takenBack[r.id] })
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
	c.add(p.readReclaimed(inst), "reclaim", inst, c.stepSize(&p.stepSizes.reclaim), from)
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
