package ledger

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// This file is the ledger of keyed jobs, which belong to leasers. Such a job gets another id when it goes
// to its dead-letter tube or is moved, and exists under one id at a time.

// maxPast is the number of ended leases that are kept to be tried.
const maxPast = 500

// mostKeyed is the largest body of most keyed jobs, in bytes.
const mostKeyed = 4 << 10

// identity is an id of the job of a keyed put. Events that have not happened are 0.
type identity struct {
	id     uint64
	seen   uint64 // the last reply that showed the job under it
	left   uint64 // when it was known that the job has another id
	token  string // the largest of its leases
	tokens uint64 // the reply with that token
}

// beginKeyed opens the entry of a put with a key that is about to be sent.
func (l *Ledger) beginKeyed(producer int, rng *rand.Rand) *entry {
	size := rng.IntN(min(l.config.MaxBody, mostKeyed) + 1)
	if rng.IntN(20) == 0 && l.config.LargestBody > 4*mostKeyed {
		size = mostKeyed + rng.IntN(3*mostKeyed)
	}
	e := l.begin(producer, size, time.Duration(1+rng.IntN(4))*time.Second)
	l.mu.Lock()
	defer l.mu.Unlock()
	e.key = fmt.Sprintf("%s-%d-%d", l.config.Name, e.producer, e.seq)
	e.tube = l.keyed[rng.IntN(len(l.keyed)-1)]
	if l.config.GroupLimit > 0 && rng.IntN(5) > 0 {
		e.group = groupName(rng.IntN(groups))
	}
	e.line = l.keyedLine(e, rng)
	return e
}

// insertedKeyed records the result of a put with a key that was sent at that event, and
// reports whether its outcome is still unknown.
func (l *Ledger) insertedKeyed(e *entry, r reply, sent uint64) (again bool) {
	l.mu.Lock()
	acked, tried := e.acked, e.tried
	e.tried = true
	switch {
	case acked != 0 || r.end == done:
		l.mu.Unlock()
		if acked == 0 {
			l.inserted(e, r.id, done)
		}
		if r.end == done {
			l.judgeRepeated(e, r, sent, tried)
		}
		return false
	case r.end == refused && !tried:
		l.mu.Unlock()
		l.inserted(e, 0, refused)
		return false
	}
	l.report.Repeated++
	l.mu.Unlock()
	return true
}

// judgeRepeated checks the reply to a put; tried reports that it is a repetition.
func (l *Ledger) judgeRepeated(e *entry, r reply, sent uint64, tried bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case r.state == "" && e.acked != 0 && sent > e.acked:
		l.fault(&l.report.Twice, "%v was put again, though its key is taken", e)
	case r.state != "" && !tried:
		l.fault(&l.report.Strange, "%v: its key was taken (%s %d) before it was put", e, r.state, r.id)
	}
	l.learn(e, r.id)
	if r.state != gone && r.state != duplicate {
		l.seenUnder(e, r.id, sent)
	}
	if e.acked == 0 {
		e.acked = l.event()
	}
}

// abandon records that a put is not repeated any more. e can be nil.
func (l *Ledger) abandon(e *entry) {
	if e != nil && e.acked == 0 {
		l.inserted(e, 0, unknown)
	}
}

// identity returns the job's identity with an id, or nil. The lock is held.
func (e *entry) identity(id uint64) *identity {
	for _, known := range e.known {
		if known.id == id {
			return known
		}
	}
	return nil
}

// seenUnder records that the job of a keyed put existed under an id, in reply to a command sent at
// that event. From then on it does not exist under other ids that earlier replies have shown. The lock is
// held.
func (l *Ledger) seenUnder(e *entry, id, sent uint64) {
	known := e.identity(id)
	if e.key == "" || known == nil {
		return
	}
	if known.left != 0 && sent > known.left {
		l.fault(&l.report.Twice, "%v is there as job %d, after it had become another one", e, id)
	}
	now := l.event()
	for _, other := range e.known {
		if other != known && other.left == 0 && other.seen != 0 && other.seen < sent {
			other.left = now
			l.report.Renamed++
		}
	}
	known.seen = now
}

// tokenGiven records a lease from the reply to a command sent at that event. Tokens of an
// id must increase.
func (l *Ledger) tokenGiven(x *lease, sent uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Leases++
	known := x.e.identity(x.id)
	if known == nil {
		return
	}
	switch compared := cmp.Or(cmp.Compare(len(x.token), len(known.token)), cmp.Compare(x.token, known.token)); {
	case compared == 0, compared < 0 && sent > known.tokens:
		l.fault(&l.report.Tokens, "%v: the lease %s came after %s", x.e, x.token, known.token)
	case compared < 0: // the replies have overtaken each other
		l.addPast(*x)
	default:
		if known.token != "" {
			l.addPast(lease{e: x.e, id: x.id, token: known.token})
		}
		known.token, known.tokens = x.token, l.event()
	}
}

// tokenPast records that a lease is over.
func (l *Ledger) tokenPast(x *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addPast(*x)
}

// addPast records that a lease is over. The lock is held.
func (l *Ledger) addPast(x lease) {
	if len(l.past) == maxPast {
		l.past = slices.Delete(l.past, 0, maxPast/2)
	}
	l.past = append(l.past, x)
}

// somePast returns a lease that is over; nil if there is none.
func (l *Ledger) somePast(rng *rand.Rand) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.past) == 0 {
		return nil
	}
	x := l.past[rng.IntN(len(l.past))]
	return &x
}

// triedPast checks the reply to a command with a lease that was over.
func (l *Ledger) triedPast(x *lease, want, addr string, end outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch end {
	case refused:
		l.report.PastRefused++
	case done:
		l.fault(&l.report.Obeyed, "%v: %s answered %s to the lease %s of job %d, which was over", x.e, addr, want, x.token, x.id)
	}
}

// giveUpLease records that a client is about to send a command that gives up a lease.
func (l *Ledger) giveUpLease(c *client, x *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.e.held = slices.DeleteFunc(x.e.held, func(ok *hold) bool { return ok == x.h })
	if c.holds[x.e] == x.h {
		delete(c.holds, x.e)
	}
}
