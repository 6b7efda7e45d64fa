package webhook

import (
	"slices"
	"time"
)

// grant is how many jobs of a subscription a dispatch can take. Each of them counts
// against the limits of the subscription, of its target, and of all calls, until its call
// and its lease end.
type grant struct {
	sub     *subscription
	target  *target
	n       int
	permits []permit // one for each job; nil without a target
	refresh bool     // the dispatch must also read the policy
}

const (
	// maxTakes and maxGrants limit a dispatch.
	maxTakes  = 512
	maxGrants = 256

	// stalePause is how long a subscription waits while its policy is being read again.
	stalePause = 100 * time.Millisecond
)

// enqueue records that a tube may have jobs, and makes a dispatch take some as soon as
// they can be called. The lock is held.
func (d *Dispatcher) enqueue(sub *subscription) {
	sub.backlog = true
	if sub.queued || sub.blocked || sub.gone || d.closing || sub.active >= sub.concurrency() {
		return // when it is unblocked, it is enqueued again
	}
	sub.queued = true
	d.runnable = append(d.runnable, sub)
	d.wake()
}

// wake causes another dispatch.
func (d *Dispatcher) wake() {
	select {
	case d.wakeDispatch <- struct{}{}:
	default:
	}
}

// grants decides which subscriptions can take how many jobs now, in the order of their
// turns. The lock is held.
func (d *Dispatcher) grants() (gs []grant) {
	left, n := min(maxTakes, d.capacity()), 0
	for n < len(d.runnable) && left > 0 && len(gs) < maxGrants && !d.closing {
		sub := d.runnable[n]
		n++
		sub.queued = false
		if sub.gone {
			continue
		}
		if g := d.grant(sub, left); g.n > 0 {
			left -= g.n
			gs = append(gs, g)
		}
	}
	d.runnable = slices.Delete(d.runnable, 0, n)
	return gs
}

// capacity returns how many more jobs can be leased, even if each is as large as a job can
// be. The lock is held.
func (d *Dispatcher) capacity() int {
	fit := (maxBodies - d.bytes) / max(d.queue.MaxJobSize(), 1)
	return min(d.config.Calls-d.leased, max(fit, fewCalls-d.leased))
}

// grant decides how many jobs of a subscription can be taken, up to most. If none can, the
// subscription is enqueued again later, when the limit that prevents it allows more. The lock
// is held.
func (d *Dispatcher) grant(sub *subscription, most int) grant {
	n := min(sub.takeSize, sub.concurrency()-sub.active, most)
	if sub.stale {
		d.blockStale(sub)
		return grant{}
	}
	g := grant{sub: sub, target: sub.target, refresh: sub.url != nil}
	for g.n < n && d.reserve(&g) {
		g.n++
		sub.active++
		d.leased++
	}
	if g.n == 0 && n > 0 && sub.target != nil {
		sub.blocked = true
		d.addWaiter(sub.target, waiter{sub: sub})
	}
	sub.woken = false
	return g
}

// reserve reports whether one more job can be taken for a grant. If the job goes to a
// target, reserve acquires a permit. The lock is held.
func (d *Dispatcher) reserve(g *grant) bool {
	if g.target == nil {
		return g.sub.active < d.share()
	}
	p := d.enter(g.target)
	if p != nil {
		g.permits = append(g.permits, p)
	}
	return p != nil
}

// blockStale blocks a subscription for stalePause. The lock is held.
func (d *Dispatcher) blockStale(sub *subscription) {
	sub.blocked = true
	time.AfterFunc(stalePause, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		sub.blocked = false
		if sub.backlog {
			d.enqueue(sub)
		}
	})
}

// returnUnused returns the part of a grant for which there was no job. The lock is held.
func (d *Dispatcher) returnUnused(g *grant, n int) {
	for range n {
		if g.target != nil {
			last := len(g.permits) - 1
			g.permits[last](errNeutral)
			g.permits = g.permits[:last]
			d.exit(g.target)
		}
		d.endLease(nil)
	}
	g.sub.active -= n
}

// endLease records that a lease has ended. body is nil if there was no job. The lock is held.
func (d *Dispatcher) endLease(body []byte) {
	d.leased--
	d.bytes -= len(body)
	if len(d.runnable) > 0 {
		d.wake()
	}
	if d.closing && d.leased == 0 {
		d.wake()
	}
}

// adjustBatchSize records how many jobs were found for a grant. The lock is held.
func (d *Dispatcher) adjustBatchSize(g *grant, n int) {
	sub := g.sub
	all := n == g.n
	d.returnUnused(g, g.n-n)
	if sub.backlog = all || sub.woken; all {
		sub.takeSize = min(2*sub.takeSize, maxTakeSize)
	} else {
		sub.takeSize = max(n, 1)
	}
	if sub.backlog {
		d.enqueue(sub)
	}
}

// callEnded records that a call of a subscription has ended: another call can begin there
// and at its target. The lock is held.
func (d *Dispatcher) callEnded(sub *subscription, t *target) {
	sub.active--
	d.running--
	if t != nil {
		d.exit(t)
	}
	if sub.backlog {
		d.enqueue(sub)
	}
}
