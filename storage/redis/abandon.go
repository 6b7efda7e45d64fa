package redis

import (
	"slices"
	"time"

	"redstalk/storage"
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
