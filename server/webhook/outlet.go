package webhook

import (
	"net/url"
	"time"

	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// outlet is a tube whose jobs are called. All of it is guarded by Dispatcher.mu, but for what
// does not change: name, source, url.
type outlet struct {
	name   string
	source *Source  // a gateway's; nil: it is a policy's
	url    *url.URL // of the policy
	policy tube.Push
	target *target // of the policy; nil for a gateway's

	bucket *bucket        // of the rate; nil: there is no rate
	counts *counts        // nil until the first call, see countsOf
	log    *telemetry.Log // of a gateway's calls that failed, to no known target; nil until the first one

	active   int // jobs that are being taken or called
	appetite int // how many are taken next if they may; grows as long as jobs are found

	hungry  bool // there may be jobs in the tube
	queued  bool // it is in Dispatcher.due
	blocked bool // it waits for its target, for its rate or for a fresh policy, and is woken then
	hinted  bool // a wake-up has come since the last take began
	gone    bool // it is in use no more
	stale   bool // its policy has changed, and is about to be read
}

// maxAppetite bounds how many jobs of a tube are taken in one dispatch batch.
const maxAppetite = 64

func newOutlet(name string, s *Source) *outlet {
	o := &outlet{name: name, source: s, appetite: 1}
	if s.Rate > 0 {
		o.bucket = newBucket(float64(s.Rate), s.RateEvery)
	}
	return o
}

func (o *outlet) concurrency() int {
	switch {
	case o.source != nil:
		return o.source.Concurrency
	case o.policy.Concurrency > 0:
		return int(o.policy.Concurrency)
	}
	return DefaultConcurrency
}

func (o *outlet) timeout() time.Duration {
	switch {
	case o.source != nil:
		return o.source.Timeout
	case o.policy.Timeout > 0:
		return o.policy.Timeout
	}
	return DefaultTimeout
}

// addOutlet begins to call the jobs of a tube, the store of which has been told that one more
// attends it; false if they are called already. It returns whether that was by its policy, and
// has ended: a gateway goes before. Then one fewer attends the tube.
func (d *Dispatcher) addOutlet(o *outlet) (added, replaced bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.outlets[o.name]; old != nil {
		if old.source != nil || o.source == nil {
			return false, false
		}
		d.retire(old)
		replaced = true
	}
	if o.url != nil {
		o.target = d.targetOf(TargetOf(o.url))
	}
	d.outlets[o.name] = o
	d.want(o) // so that the store tells of the jobs to come
	return true, replaced
}

// removeOutlet ends that the jobs of a tube are called: by a gateway, or by its policy. It
// returns whether they were.
func (d *Dispatcher) removeOutlet(name string, gateway bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.outlets[name]
	if o == nil || (o.source != nil) != gateway {
		return false
	}
	d.retire(o)
	return true
}

// retire takes an outlet out of use. The lock is held.
func (d *Dispatcher) retire(o *outlet) {
	o.gone = true
	delete(d.outlets, o.name)
	d.forgetCounts(o)
	if o.target != nil {
		d.leaveTarget(o.target)
	}
}

// bucket bounds a rate: it holds tokens, one for each call, and fills by itself.
type bucket struct {
	perSecond, most, tokens float64
	at                      time.Time // when tokens was right
}

// inBucket is for how long a rate that was not used may be used at once.
const inBucket = 100 * time.Millisecond

func newBucket(calls float64, every time.Duration) *bucket {
	b := &bucket{perSecond: calls / max(every, time.Millisecond).Seconds(), at: time.Now()}
	b.most = max(1, b.perSecond*inBucket.Seconds())
	b.tokens = b.most
	return b
}

// available returns how many calls may begin now.
func (b *bucket) available(now time.Time) int {
	b.tokens = min(b.most, b.tokens+now.Sub(b.at).Seconds()*b.perSecond)
	b.at = now
	return int(b.tokens)
}

// wait returns how long it takes until one may.
func (b *bucket) wait() time.Duration {
	return time.Duration((1-b.tokens)/b.perSecond*float64(time.Second)) + time.Millisecond
}
