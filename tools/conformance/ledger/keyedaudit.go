package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// settlePause is how long an audit waits before it looks for such a job again.
	settlePause = 100 * time.Millisecond

	// sureLooks is how often a job that may have been deleted is looked for until
	// it counts as gone. While an audit looks in one tube after the other, the job can move
	// from a tube that is not yet checked to one that is.
	sureLooks = 3
)

// checkKeyed looks for the jobs of the chosen keyed puts: each must be in exactly one place, at least
// after some time.
func (l *Ledger) checkKeyed(ctx context.Context, chosen func(*entry) bool) {
	var pending []*entry
	l.mu.Lock()
	for _, e := range l.entries {
		if e.key != "" && !e.refused && chosen(e) {
			pending = append(pending, e)
		}
	}
	l.mu.Unlock()
	for look, limit := 1, time.Now().Add(l.config.Settle); len(pending) > 0 && ctx.Err() == nil; look++ {
		last := look >= sureLooks && time.Now().After(limit)
		if pending = l.lookFor(ctx, pending, look, last); last {
			return
		}
		if len(pending) > 0 {
			sleep(ctx, settlePause)
		}
	}
}

// lookFor looks for jobs once, and returns those without a result yet.
func (l *Ledger) lookFor(ctx context.Context, jobs []*entry, look int, last bool) []*entry {
	share := (len(jobs) + auditors - 1) / auditors
	left := make([][]*entry, auditors)
	l.audit(func(c *client, number int) {
		mine := jobs[min(number*share, len(jobs)):min((number+1)*share, len(jobs))]
		for some := range slices.Chunk(mine, peekBatch) {
			if !c.connect(ctx) {
				return
			}
			for _, at := range c.lookAt(some) {
				if !at.judge(l, look, last) {
					left[number] = append(left[number], at.e)
				}
			}
		}
	})
	return slices.Concat(left...)
}

// whereabouts is where a keyed job was found: under its key in tubes, and under ids.
type whereabouts struct {
	e      *entry
	tubes  []string
	ids    []uint64 // of those in tubes
	peeked []uint64
	unsure bool // a reply is missing
}

// lookAt looks for some jobs, by their keys and all the ids that they had.
func (c *client) lookAt(some []*entry) []*whereabouts {
	var requests []request
	var all []*whereabouts
	sent := c.ledger.sending()
	for _, e := range some {
		at := &whereabouts{e: e}
		all = append(all, at)
		for _, name := range c.ledger.keyed {
			requests = append(requests, request{text: fmt.Sprintf("find %s %s\r\n", name, e.key), want: "FOUND", settle: func(r reply) {
				if at.unsure = at.unsure || r.end == unknown; r.end == done {
					c.ledger.seen(r.id, r.body, sent)
					at.tubes, at.ids = append(at.tubes, name), append(at.ids, r.id)
				}
			}})
		}
		for _, id := range c.ledger.idsOf(e) {
			requests = append(requests, request{text: fmt.Sprintf("peek %d\r\n", id), want: "FOUND", settle: func(r reply) {
				if at.unsure = at.unsure || r.end == unknown; r.end == done {
					at.peeked = append(at.peeked, id)
				}
			}})
		}
	}
	c.exchange(requests, nil)
	return all
}

func (l *Ledger) idsOf(e *entry) (ids []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range e.known {
		ids = append(ids, known.id)
	}
	return ids
}

// judge checks where a job was found by the look of that number. It returns false if there is no result
// yet; the last look always has one.
func (at *whereabouts) judge(l *Ledger, look int, last bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := at.e
	nowhere := len(at.ids)+len(at.peeked) == 0
	switch {
	case at.unsure:
		return last // then others have said it
	case e.gone != 0 && nowhere:
		e.verified = true
	case len(at.ids) == 1 && e.gone == 0 && !slices.ContainsFunc(at.peeked, func(id uint64) bool { return id != at.ids[0] }):
	case nowhere && len(e.known) == 0:
	case nowhere && e.open > 0 && look >= sureLooks:
		e.verified = true
		l.markGone(e)
	case !last:
		return false
	case nowhere:
		l.fault(&l.report.Lost, "%v is nowhere, and no delete was sent", e)
		l.markGone(e)
	case e.gone != 0:
		l.fault(&l.report.Undead, "%v is gone, and found as jobs %v, by its key in %v", e, at.peeked, at.tubes)
	default:
		l.fault(&l.report.Twice, "%v is there as jobs %v, and by its key in %v as jobs %v", e, at.peeked, at.tubes, at.ids)
	}
	return true
}
