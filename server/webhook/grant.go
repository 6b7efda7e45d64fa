package webhook

import (
	"slices"
	"time"
)

// grant is how many jobs of an outlet a dispatch batch may take. For each of them a place is taken, at
// the outlet, at its target, and over all, until release.
type grant struct {
	outlet  *outlet
	target  *target
	n       int
	permits []permit // one for each; nil without a target
	refresh bool     // the dispatch batch is to read the policy, too
}

const (
	// maxTakes and maxGrants bound a dispatch batch.
	maxTakes  = 512
	maxGrants = 256

	// stalePause is how long an outlet is left alone whose policy is about to be read.
	stalePause = 100 * time.Millisecond
)

// want records that there may be jobs in a tube, and has a dispatch batch see to it as soon as they may
// be called. The lock is held.
func (d *Dispatcher) want(o *outlet) {
	o.hungry = true
	if o.queued || o.blocked || o.gone || d.closing || o.active >= o.concurrency() {
		return // release, or whatever blocks it, comes back to it
	}
	o.queued = true
	d.due = append(d.due, o)
	d.wake()
}

// wake has a dispatch batch carried out.
func (d *Dispatcher) wake() {
	select {
	case d.wakeRound <- struct{}{}:
	default:
	}
}

// grants decides who may take how many jobs now, one after the other. The lock is held.
func (d *Dispatcher) grants(now time.Time) (gs []grant) {
	left, n := min(maxTakes, d.places()), 0
	for n < len(d.due) && left > 0 && len(gs) < maxGrants && !d.closing {
		o := d.due[n]
		n++
		o.queued = false
		if o.gone {
			continue
		}
		if g := d.grant(o, now, left); g.n > 0 {
			left -= g.n
			gs = append(gs, g)
		}
	}
	d.due = slices.Delete(d.due, 0, n)
	return gs
}

// places is how many jobs more may be leased: even if each is as large as a job may be. The lock
// is held.
func (d *Dispatcher) places() int {
	fit := (maxBodies - d.bytes) / max(d.queue.MaxJobSize(), 1)
	return min(d.config.Calls-d.leased, max(fit, fewCalls-d.leased))
}

// grant decides how many jobs of an outlet may be taken, up to most. If none may, whatever
// forbids it sees to it that the outlet is wanted again. The lock is held.
func (d *Dispatcher) grant(o *outlet, now time.Time, most int) grant {
	n := min(o.appetite, o.concurrency()-o.active, most)
	if o.stale {
		d.block(o, stalePause)
		return grant{}
	}
	if o.bucket != nil && n > 0 {
		if n = min(n, o.bucket.available(now)); n <= 0 {
			d.block(o, o.bucket.wait())
			return grant{}
		}
	}
	g := grant{outlet: o, target: o.target, refresh: o.url != nil}
	for g.n < n && d.reserve(&g) {
		g.n++
		o.active++
		d.leased++
	}
	if g.n == 0 && n > 0 && o.target != nil {
		o.blocked = true
		d.wait(o.target, waiter{outlet: o})
	}
	if o.bucket != nil {
		o.bucket.tokens -= float64(g.n)
	}
	o.hinted = false
	return g
}

// reserve returns whether one job more may be taken for a grant. If it goes to a target, it has
// a place there then. The lock is held.
func (d *Dispatcher) reserve(g *grant) bool {
	if g.target == nil {
		return g.outlet.active < d.share()
	}
	p := d.enter(g.target)
	if p != nil {
		g.permits = append(g.permits, p)
	}
	return p != nil
}

// block has an outlet wait for so long. The lock is held.
func (d *Dispatcher) block(o *outlet, wait time.Duration) {
	o.blocked = true
	time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		o.blocked = false
		if o.hungry {
			d.want(o)
		}
	})
}

// unused gives back places of a grant for which there was no job. The lock is held.
func (d *Dispatcher) unused(g *grant, n int) {
	for range n {
		if g.target != nil {
			last := len(g.permits) - 1
			g.permits[last](errNeutral)
			g.permits = g.permits[:last]
			d.left(g.target)
		}
		d.notLeased(nil)
	}
	if g.outlet.bucket != nil {
		g.outlet.bucket.tokens += float64(n)
	}
	g.outlet.active -= n
}

// notLeased ends a lease: of a job with this body, or of none. The lock is held.
func (d *Dispatcher) notLeased(body []byte) {
	d.leased--
	d.bytes -= len(body)
	if len(d.due) > 0 {
		d.wake()
	}
	if d.closing && d.leased == 0 {
		d.wake()
	}
}

// found notes how many jobs a grant has brought. The lock is held.
func (d *Dispatcher) found(g *grant, n int) {
	o := g.outlet
	all := n == g.n
	d.unused(g, g.n-n)
	if o.hungry = all || o.hinted; all {
		o.appetite = min(2*o.appetite, maxAppetite)
	} else {
		o.appetite = max(n, 1)
	}
	if o.hungry {
		d.want(o)
	}
}

// called ends a call of an outlet: its place there and at its target are free, and the job is
// to be told to the store. The lock is held.
func (d *Dispatcher) called(o *outlet, t *target) {
	o.active--
	d.running--
	if t != nil {
		d.left(t)
	}
	if o.hungry {
		d.want(o)
	}
}
