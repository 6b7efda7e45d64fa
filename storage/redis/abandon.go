package redis

import (
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// What becomes of units that are answered with an error while it is not known what
// became of their call, or that are never sent: jobs that were reserved for them are
// given back, and what they say of connections that come and go is made up for.

// keepLater is when upkeep is tried again that Redis has refused.
const keepLater = time.Second

// giveUp answers the units of a call with an error. It was not carried out, and will
// not be.
func (p *partition) giveUp(c *call, err error) {
	p.abandon(c, classify(err))
	p.cancel(c)
}

// abandon answers the units of the call with an error. From now on the call
// only asks what became of it.
func (p *partition) abandon(c *call, err error) {
	c.kind = void
	copies := make(map[*storage.Op]*storage.Op)
	var waiting []*unit
	for _, u := range c.units {
		if u.abandoned || u.keep {
			continue
		}
		waiting = append(waiting, &unit{batch: u.batch, upkeep: u.upkeep, after: u.after, at: u.at, partial: u.partial})
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
			if its := copies[op]; its != nil {
				s.ops[i] = its
			}
		}
	}
	for _, u := range waiting {
		u.end(err)
	}
}

// cloneOps copies operations that their connection will take back while the
// copies are still under way.
func cloneOps(ops []storage.Op) []storage.Op {
	all := slices.Clone(ops)
	for i := range all {
		all[i].Tubes = slices.Clone(all[i].Tubes)
	}
	return all
}

// giveBackUnheard gives back what was reserved for units that were answered with an
// error, or are about to be.
func (p *partition) giveBackUnheard(units ...*unit) {
	var unheard []reservation
	for _, u := range units {
		for _, op := range p.holding(u) {
			unheard = append(unheard, p.holdings.of(op.Answer.ID).reservation)
		}
	}
	if len(unheard) > 0 {
		p.log.Info("jobs that were reserved for clients who were not told are given back", "jobs", len(unheard))
	}
	for part := range slices.Chunk(unheard, maxMoves) {
		p.giveBack(part)
	}
}

// holding returns the operations of a unit that have given somebody a job, which that
// connection still has.
func (p *partition) holding(u *unit) []*storage.Op {
	return slices.DeleteFunc(u.given(), func(op *storage.Op) bool {
		held := p.holdings.of(op.Answer.ID)
		return held == nil || held.holder != op.Holder
	})
}

// cancel is for a call that was not carried out, and will not be: what must be
// done all the same is done later.
func (p *partition) cancel(c *call) {
	c.reply = nil
	p.oweTold(c)
	p.leaveStaged(c)
	for _, u := range c.units {
		if u.keep && !u.abandoned {
			u.abandoned = true
			again := *u
			again.abandoned = false
			time.AfterFunc(keepLater, func() { p.submit(&again) })
		}
		p.forgo(u, u.begun)
	}
	p.giveBackUnheard(c.units...)
}

// forgo sees to it that a connection that comes or goes is known to, even if its unit
// was not carried out from that operation on.
func (p *partition) forgo(u *unit, from int) {
	if u.batch == nil {
		return
	}
	seen := u.attends.before
	if from == u.at {
		seen = u.attends.seen
	}
	for i := from; i < len(u.batch.Ops); i++ {
		switch op := &u.batch.Ops[i]; op.Kind {
		case storage.Ref:
			if seen++; seen <= u.attends.counted {
				continue
			}
			for _, name := range op.Tubes {
				p.attendance.count(name, op.Role, op.Delta)
				p.attendance.owe(name)
			}
		case storage.ReleaseAll:
			p.leaveLater(op.Holder)
		}
	}
}

// giveBack has jobs that nobody wants given back by a later call.
func (p *partition) giveBack(all []reservation) {
	p.submit(&unit{keep: true, upkeep: func(c *call) { p.encodeGiveBack(c, all) }})
}

// leaveLater has what a connection that is gone holds given back in calls of their
// own.
func (p *partition) leaveLater(h tube.Holder) {
	p.holdings.forget(h)
	p.submit(&unit{keep: true, upkeep: func(c *call) {
		p.encodeGiveBackSome(c, h, func() { p.leaveLater(h) })
	}})
}
