package webhook

import (
	"net/url"
	"time"

	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// subscription is a tube whose jobs are pushed, because of its policy or by a gateway.
// Dispatcher.mu guards all of it except what does not change: name, source, url.
type subscription struct {
	name   string
	source *Source  // a gateway's; nil: it comes from a policy
	url    *url.URL // of the policy
	policy tube.Push
	target *target // of the policy; nil for a gateway's

	counts *counts             // nil until the first call, see countsOf
	log    *telemetry.Throttle // of a gateway's failed calls to unknown targets; nil until the first one

	active   int // jobs that are being taken or called
	takeSize int // how many are taken next if allowed; grows as long as jobs are found

	backlog bool // there may be jobs in the tube
	queued  bool // it is in Dispatcher.runnable
	blocked bool // it waits for its target or for a fresh policy, and is then woken
	woken   bool // a wake-up has come since the last take began
	gone    bool // it is not in use any more
	stale   bool // its policy has changed, and is about to be read
}

// maxTakeSize limits how many jobs of a tube one dispatch takes.
const maxTakeSize = 64

func newSubscription(name string, s *Source) *subscription {
	return &subscription{name: name, source: s, takeSize: 1}
}

func (sub *subscription) concurrency() int {
	switch {
	case sub.source != nil:
		return sub.source.Concurrency
	case sub.policy.Concurrency > 0:
		return int(sub.policy.Concurrency)
	}
	return DefaultConcurrency
}

func (sub *subscription) timeout() time.Duration {
	switch {
	case sub.source != nil:
		return sub.source.Timeout
	case sub.policy.Timeout > 0:
		return sub.policy.Timeout
	}
	return DefaultTimeout
}

// addSubscription begins to push the jobs of a tube that is already watched. added is false if
// they are pushed already. replaced is true if it is a gateway's subscription that replaced the
// one of the tube's policy: then the caller must undo one watch of the tube.
func (d *Dispatcher) addSubscription(sub *subscription) (added, replaced bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.subscriptions[sub.name]; old != nil {
		if old.source != nil || sub.source == nil {
			return false, false
		}
		d.retire(old)
		replaced = true
	}
	if sub.url != nil {
		sub.target = d.refTarget(TargetOf(sub.url))
	}
	d.subscriptions[sub.name] = sub
	d.enqueue(sub) // so that the store sends wake-ups for later jobs
	return true, replaced
}

// removeSubscription ends the subscription of a tube: that of a gateway, or that of its
// policy. It reports whether there was one.
func (d *Dispatcher) removeSubscription(name string, gateway bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	sub := d.subscriptions[name]
	if sub == nil || (sub.source != nil) != gateway {
		return false
	}
	d.retire(sub)
	return true
}

// retire ends the use of a subscription. The lock is held.
func (d *Dispatcher) retire(sub *subscription) {
	sub.gone = true
	delete(d.subscriptions, sub.name)
	d.forgetCounts(sub)
	if sub.target != nil {
		d.unrefTarget(sub.target)
	}
}

// pushing returns the names of the tubes that push because of their policies.
func (d *Dispatcher) pushing() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, sub := range d.subscriptions {
		if sub.url != nil {
			names = append(names, name)
		}
	}
	return names
}

// applyPolicy retires the subscription of a tube if the policy has changed. It returns the
// subscription to add for the policy, nil if there is none, and whether it has retired one.
func (d *Dispatcher) applyPolicy(name string, p tube.Push) (added *subscription, removed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.subscriptions[name]
	if old != nil && (old.source != nil || old.policy == p) {
		old.stale = false
		return nil, false
	}
	var inherited *counts // by the next subscription
	u, err := url.Parse(p.URL)
	pushes := p.URL != "" && err == nil && d.config.Allow != nil && d.config.Allow.URL(p.URL)
	if old != nil {
		if pushes {
			inherited, old.counts = old.counts, nil
		}
		d.retire(old)
	}
	if p.URL != "" && !pushes {
		d.policies.refused.Warn(d.config.Log, "a tube does not push, because its policy leads where --push-allow does not", "tube", name)
	}
	if !pushes {
		return nil, old != nil
	}
	return &subscription{name: name, url: u, policy: p, takeSize: 1, counts: inherited}, old != nil
}
