package ledger

import (
	"cmp"
	"slices"
	"time"
)

// hold is a reservation, as its client knows of it: from the reply that hands
// out the job until the client sends what gives it up, or ends its connection.
type hold struct {
	addr  string    // of the server that handed it out
	since time.Time // when it was asked for: the TTR does not begin earlier

	// behind reports that a later command of the packet in which the client asked for the
	// job gives it up, meant for an earlier reservation, whose TTR had run out. So the
	// server may have carried that out, and given the job to somebody else, before the
	// client hears of either.
	givenUpLater bool

	// lease reports that it belongs to no connection: only the TTR ends it.
	lease bool
}

// Reasons that no server needs.
const (
	theTTR      = "TTR ran out"
	givenBehind = "given up in the same packet"
	notJudged   = "what belongs to connections is not judged"
)

// excused returns why it is no fault if a reservation is not there any more; ""
// if it is one. The lock is held.
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
		return notJudged
	}
	return l.config.Excuse(h.addr, h.since)
}

// handedOut records that the client has got a job for which it has asked at that event.
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
			l.fault(&l.report.Contested, "%v, TTR %v, was handed out by %s, which was asked at %s, and deleted before that was heard, by %s; now it is %s",
				e, e.ttr, h.addr, clockTime(h.since), e.deleter, clockTime(time.Now()))
		}
	}
	for _, other := range e.held {
		if why := cmp.Or(l.excused(e, other), l.excused(e, h)); why != "" {
			l.report.Shared[why]++
		} else {
			l.fault(&l.report.Contested, "%v was handed out by %s, which was asked at %s, while a client of %s had it that asked at %s; now it is %s",
				e, h.addr, clockTime(h.since), other.addr, clockTime(other.since), clockTime(time.Now()))
		}
	}
	if !c.ending {
		c.drop(e)
		e.held = slices.DeleteFunc(e.held, func(other *hold) bool { return other.lease && l.excused(e, other) != "" })
		e.held = append(e.held, h)
		c.holds[e] = h
	}
}

// takenFromHolders judges a delete that was acknowledged: nobody else may have the
// job. The lock is held.
func (l *Ledger) takenFromHolders(e *entry) {
	for _, other := range e.held {
		if l.excused(e, other) == "" {
			l.fault(&l.report.Robbed, "%v was deleted by somebody else, while a client of %s had it for %v",
				e, other.addr, time.Since(other.since))
		}
	}
}

// giveUp records that the client is about to send what gives up a job, if it is
// carried out, and returns how it had it; nil if that is unknown.
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

// letGo records that the connection is about to end, and with it what the client
// has reserved; for good, if it is not to be made again.
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

// denied judges that the client was told that it does not hold the job. h is how
// it had it. So, if another client's command was obeyed though this client held
// the job, this client finds it out.
func (l *Ledger) denied(e *entry, h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Overtaken++
	if h != nil && l.excused(e, h) == "" {
		l.fault(&l.report.Robbed, "%v was taken from a client of %s that had it for %v", e, h.addr, time.Since(h.since))
	}
}

// clockTime is for comparing a moment with what logs say.
func clockTime(at time.Time) string { return at.UTC().Format("15:04:05.000") }
