package redis

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
)

// When a call fails, its units are held up until it succeeds or their time is over. The same
// call is sent again and again, with the same number: if Redis has carried it out and only the
// reply was lost, the script repeats the reply.
//
// When their time is over, the units are answered with an error. But the outcome of the call
// must be known before the next one, or a job could stay reserved for a client that never got
// it. So from then on only the number is sent, with the request to mark it void. Either the
// script answers what it has done, and jobs that no client has received are given back. Or it
// marks the number, so that the call, if it still arrives, can no longer be carried out.

// errUnknown: the outcome of a batch is unknown, and it cannot be sent again as it is.
var errUnknown = fmt.Errorf("%w: Redis has no memory left, or does not take so large a job", storage.ErrUnavailable)

// recover continues with a failed call until its outcome is known. If it leaves no reply, the
// units have been answered by then.
func (p *partition) recover(c *call, err error) {
	begun, pause, uncertain, renewed := time.Now(), firstPause, false, false
	rest := func() {
		time.Sleep(pause)
		pause = min(2*pause, longestPause)
	}
	p.logFailure(c, err)
	logged := conn.CodeOf(err)
	defer p.recovered()
	for {
		uncertain = uncertain || unknown(err)
		switch what := reactionTo(err); {
		case what == giveUp:
			p.giveUp(c, err)
			return
		case what == renew:
			if c.kind == void || uncertain {
				p.abandon(c, classify(err))
			}
			if renewed { // repeatedly: perhaps the call itself takes too long
				p.overdue(c, classify(err))
				rest()
			}
			renewed = true
			if p.renew(c, err); c.kind == void {
				p.cancel(c)
				return
			}
			p.encodeAgain(c)
		case what == withhold && c.noMemory == nil && !uncertain:
			c.noMemory = classify(err)
			p.encodeAgain(c)
		case what == restage && !uncertain:
			c.largeFrom = stageNothing
			p.encodeAgain(c)
		case what == shrink && !uncertain:
			p.tooLarge(c)
			p.encodeAgain(c)
		case (what == withhold || what == shrink) && uncertain && c.kind != void:
			p.abandon(c, errUnknown) // find out its outcome before anything else
		default:
			if p.overdue(c, classify(err)); c.kind == void && p.inbox.hasEnded() {
				p.giveUp(c, err) // no client waits any more
				return
			}
			p.failing.Store(true)
			rest()
		}
		if err = p.attempt(c); err == nil {
			if pause > firstPause {
				p.log.Info("Redis works again", "after", time.Since(begun))
			}
			p.resolveVoid(c)
			return
		}
		logged = p.logChange(c, err, logged)
	}
}

// logFailure logs why Redis has not carried out a call. After withhold, what needs no memory is
// carried out anyway.
func (p *partition) logFailure(c *call, err error) {
	level := slog.LevelWarn
	switch {
	case reactionTo(err) == withhold:
		return
	case conn.NeedsOperator(err):
		level = slog.LevelError
	}
	p.log.Log(context.Background(), level, "Redis has not carried out a batch", "operations", c.ops, "err", err)
}

// logChange logs if a call now fails for another reason that needs the operator, and returns
// the code that was logged last.
func (p *partition) logChange(c *call, err error, logged string) string {
	code := conn.CodeOf(err)
	if code == logged || !conn.NeedsOperator(err) {
		return logged
	}
	p.logFailure(c, err)
	return code
}

// recovered triggers what became due while a call failed.
func (p *partition) recovered() {
	p.failing.Store(false)
	p.background.dueIn(p.clock.now(), 0)
	p.listener.Due(0)
}

// attempt makes a call again, and decodes the reply. If it fails there is no reply.
func (p *partition) attempt(c *call) error {
	p.stats.retries.Add(1)
	err := p.exchange(c, false)
	if err == nil {
		err = p.decode(c)
	}
	if err != nil {
		c.reply = nil
	}
	return err
}

// encodeAgain encodes the units again. Nothing of them was carried out.
func (p *partition) encodeAgain(c *call) {
	p.restoreReports(c)
	p.leaveStaged(c)
	c.forgetEncoded()
	c.number, c.created = p.instance.nextNumber(), p.clock.redis()
	p.limit(c)
	if !p.instance.isRegistered() {
		p.encodeChangedRefs(c)
	}
	for _, u := range c.units {
		u.restart()
		if !u.abandoned {
			p.encode(c, u)
		}
	}
}

// overdue answers units whose time is over. Those of the call under way are answered together,
// when the time of the last of them is over.
func (p *partition) overdue(c *call, err error) {
	limit := time.Now().Add(-p.options.Timeout)
	waits := func(u *unit) bool { return !u.mustRun && !u.abandoned }
	early := func(u *unit) bool { return waits(u) && !u.since.Before(limit) }
	if c.kind != void && slices.ContainsFunc(c.units, waits) && !slices.ContainsFunc(c.units, early) {
		p.abandon(c, err)
	}
	late := p.inbox.remove(func(u *unit) bool { return !u.mustRun && u.since.Before(limit) })
	p.giveBackUndelivered(late...)
	for _, u := range late {
		p.applyUnsent(u, u.at)
		u.end(err)
	}
}

// resolveVoid handles the reply to a call whose units may have been answered with an error
// before.
func (p *partition) resolveVoid(c *call) {
	if c.kind != void {
		return
	}
	if c.reply.unread == lua.Voided {
		p.cancel(c)
		return
	}
	for _, u := range c.units {
		if u.abandoned {
			p.applyUnsent(u, u.at)
		}
	}
	p.giveBackUndelivered(c.units...)
}

// renew continues as another instance, after others have declared this one dead, or Redis has
// lost data. What Redis still has under the old name is that of a dead instance.
func (p *partition) renew(c *call, err error) {
	if p.pipeline.answered != nil {
		p.withdraw(p.pipeline.answered, err)
	}
	p.withdrawEarlier(c, err)
	if p.holdings.count() > 0 {
		p.log.Warn("Redis does not know this instance any more; its reservations are given back", "jobs", p.holdings.count())
	}
	if strings.Contains(err.Error(), lua.DeclaredDead) {
		p.revivedAt = p.clock.now()
		p.holdings.clear()
	} else {
		p.holdings.forfeit()
		p.ids.skip(p.clock.now())
	}
	p.bodies.clear()
	p.refs.markAllUnreported()
	p.instance.rename()
	p.wakeAll()
}

// wakeAll makes all waiting clients look for jobs again: Redis no longer knows that this
// instance must be woken.
func (p *partition) wakeAll() {
	for name, at := range p.refs.tubes {
		if at.watching > 0 {
			p.listener.WakeUp(name)
		}
	}
}
