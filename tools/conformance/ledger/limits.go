package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// This file is about limits of groups. Jobs of leasers are in groups, of each of which only some may
// be reserved in a tube at a time.

const (
	// groups is in how many groups the jobs of leasers are.
	groups = 3

	// pauseLength is how long leasers pause a group.
	pauseLength = time.Second

	// longestWait is how long a client waits for a job of a tube that only it empties. In that time
	// every reservation ends, as it is longer than their TTR, and every retry is due.
	longestWait = 10 * time.Second
)

// lane is a group of a tube.
type lane struct{ tube, group string }

// laneRecord is what is known of a lane.
type laneRecord struct {
	held        []laneHold
	paused      uint64    // the event that showed that it is paused
	pausedUntil time.Time // at least
}

// laneHold is a reservation of a job of a lane.
type laneHold struct {
	e *entry
	h *hold
}

// setLimits sets the limits of all tubes of leasers, before any job is put.
func (l *Ledger) setLimits(ctx context.Context) {
	if l.config.GroupLimit == 0 {
		return
	}
	c := l.newClient()
	defer c.retire()
	left := slices.Clone(l.keyed)
	for len(left) > 0 && c.connect(ctx) {
		text := fmt.Sprintf("set-policy %s group-concurrency:%d\r\n", left[0], l.config.GroupLimit)
		c.exchange([]request{{text: text, want: "SET", settle: func(r reply) {
			if r.end == done {
				left = left[1:]
			}
		}}}, nil)
	}
}

// record returns what is known of a lane. The lock is held.
func (l *Ledger) record(at lane) *laneRecord {
	r := l.lanes[at]
	if r == nil {
		r = new(laneRecord)
		l.lanes[at] = r
	}
	return r
}

// checkLimits checks that a job that was delivered in reply to a command sent at that event could start:
// not more of its group are reserved than may be, and the group is not paused. The lock is held.
func (l *Ledger) checkLimits(e *entry, h *hold, sent uint64) {
	if h.tube == "" || e.group == "" || l.excused(e, h) != "" {
		return
	}
	r := l.record(lane{h.tube, e.group})
	if r.paused != 0 && sent > r.paused && time.Now().Before(r.pausedUntil) {
		l.fault(&l.report.Exceeded, "%v was delivered by %s to a command sent at %s, while its group %s of %s was paused", e, h.addr, clockTime(h.since), e.group, h.tube)
	}
	r.held = slices.DeleteFunc(r.held, func(other laneHold) bool {
		return !slices.Contains(other.e.held, other.h) || l.excused(other.e, other.h) != ""
	})
	r.held = append(r.held, laneHold{e, h})
	switch n := len(r.held); {
	case n == l.config.GroupLimit:
		l.report.Full++
	case n > l.config.GroupLimit:
		l.fault(&l.report.Exceeded, "%v was delivered by %s to a command sent at %s: it is one of %d reserved jobs of group %s of %s, and the limit is %d; now it is %s",
			e, h.addr, clockTime(h.since), n, e.group, h.tube, l.config.GroupLimit, clockTime(time.Now()))
	}
}

// pauseGroup pauses a group for a moment.
func (b *leaser) pauseGroup() request {
	at := lane{b.tube(), groupName(b.rng.IntN(groups))}
	begun := time.Now()
	text := fmt.Sprintf("pause-group %s %s %d\r\n", at.tube, at.group, int(pauseLength.Seconds()))
	return request{text: text, want: "PAUSED", settle: func(r reply) {
		if r.end == done {
			b.ledger.paused(at, begun.Add(pauseLength))
		}
	}}
}

// paused records that a lane is paused until then, or longer.
func (l *Ledger) paused(at lane, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Pauses++
	if r := l.record(at); until.After(r.pausedUntil) {
		r.paused, r.pausedUntil = l.event(), until
	}
}

func groupName(n int) string { return fmt.Sprint("group-", n) }

// stuck records that a client has waited in vain for a job of a tube that has jobs, none of which
// anybody holds.
func (l *Ledger) stuck(name string, jobs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault(&l.report.Stuck, "a client got none of the %d jobs of %s in %v, and again none when all were kicked", jobs, name, longestWait)
}
