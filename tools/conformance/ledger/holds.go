package ledger

import (
	"cmp"
	"slices"
	"time"
)

// hold is a reservation from its client's view: from the reply with the job
// until the client sends the command that gives it up, or closes its connection.
type hold struct {
	addr  string    // of the server that delivered it
	since time.Time // when the reserve was sent: the TTR does not begin earlier

	// givenUpLater reports that a later command in the packet with the reserve
	// gives the job up. It was meant for an earlier reservation, whose TTR had ended. So the
	// server may have executed it, and given the job to somebody else, before the
	// client gets either reply.
	givenUpLater bool

	// lease reports that the reservation belongs to no connection: only the TTR ends it.
	lease bool

	tube string // the tube of the job; "" if it is not known
}

// Excuses that do not depend on the server.
const (
	theTTR      = "TTR ran out"
	givenBehind = "given up in the same packet"
	notChecked  = "reservations of connections are not checked"
)

// excused returns why the end of a reservation is not a fault; "" if it
// is one. The lock is held.
func (l *Ledger) excused(e *entry, h *hold) string {
	if h.givenUpLater {
		return givenBehind
	}
	if time.Since(h.since) >= e.ttr {
		return theTTR
	}
	switch {
	case h.lease:
		return ""
	case l.config.Excuse == nil:
		return notChecked
	}
	return l.config.Excuse(h.addr, h.since)
}

// handedOut records that the client has got a job with a command sent at that event.
// Nobody else may have it, nor have deleted it meanwhile, unless there is an excuse.
func (c *client) handedOut(e *entry, sent uint64, h *hold) {
	l := c.ledger
	if e == nil || l.config.Excuse == nil && e.key == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.deleted && sent <= e.gone {
		if why := l.excused(e, h); why != "" {
			l.report.Shared[why+", and it was deleted by then"]++
		} else {
			l.fault(&l.report.Contested, "%v, TTR %v, was delivered by %s to a command sent at %s, and deleted before the reply, by %s; now it is %s",
				e, e.ttr, h.addr, clockTime(h.since), e.deleter, clockTime(time.Now()))
		}
	}
	for _, other := range e.held {
		if why := cmp.Or(l.excused(e, other), l.excused(e, h)); why != "" {
			l.report.Shared[why]++
		} else {
			l.fault(&l.report.Contested, "%v was delivered by %s to a command sent at %s, while a client of %s had it from a command sent at %s; now it is %s",
				e, h.addr, clockTime(h.since), other.addr, clockTime(other.since), clockTime(time.Now()))
		}
	}
	l.checkLimits(e, h, sent)
	if !c.ending {
		c.drop(e)
		e.held = slices.DeleteFunc(e.held, func(other *hold) bool { return other.lease && l.excused(e, other) != "" })
		e.held = append(e.held, h)
		c.holds[e] = h
	}
}

// takenFromHolders checks an acknowledged delete: nobody else may have the
// job. The lock is held.
func (l *Ledger) takenFromHolders(e *entry) {
	for _, other := range e.held {
		if l.excused(e, other) == "" {
			l.fault(&l.report.Robbed, "%v was deleted by somebody else, while a client of %s had it for %v",
				e, other.addr, time.Since(other.since))
		}
	}
}

// giveUp records that the client is about to send a command that gives up a job, and
// returns its reservation; nil if that is unknown.
func (c *client) giveUp(e *entry) *hold {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	h := c.holds[e]
	c.drop(e)
	return h
}

// drop forgets a reservation. The lock is held.
func (c *client) drop(e *entry) {
	if h := c.holds[e]; h != nil {
		e.held = slices.DeleteFunc(e.held, func(ok *hold) bool { return ok == h })
		delete(c.holds, e)
	}
}

// releaseAll records that the connection is about to end, and with it the client's
// reservations; forGood if it will not be made again.
func (c *client) releaseAll(forGood bool) {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	c.ending = c.ending || forGood
	for e, h := range c.holds {
		if !h.lease {
			c.drop(e)
		}
	}
}

// denied checks a reply that says that the client does not hold the job. h is its
// reservation. If another client's command was executed although this client held
// the job, it is noticed here.
func (l *Ledger) denied(e *entry, h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Overtaken++
	if h != nil && l.excused(e, h) == "" {
		l.fault(&l.report.Robbed, "%v was taken from a client of %s that had it for %v", e, h.addr, time.Since(h.since))
	}
}

// clockTime formats a time in the form of logs.
func clockTime(at time.Time) string { return at.UTC().Format("15:04:05.000") }
