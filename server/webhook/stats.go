package webhook

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"redstalk/storage/telemetry"
)

// Buckets are the upper bounds of a histogram of the durations of calls, in seconds. One
// more bucket holds longer calls.
var Buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

const numBuckets = 14 // len(Buckets) + 1

// Stats are the counters of calls since New, and the current state.
type Stats struct {
	Tubes   []TubeStats   // tubes that are counted by name and have had a call, sorted by name
	Rest    TubeStats     // all other calls; Tube is empty
	Targets []TargetStats // sorted by name
	Running int           // calls under way
	Leased  int           // jobs that are being called, or whose outcome is about to be written to the store
	Pushing int           // tubes that push, whether or not they have had calls
	Waiting int           // those of them that may have jobs, but wait for one of the limits
}

// TubeStats are the counters of one tube. They never decrease. When the tube stops pushing,
// they are added to Stats.Rest.
type TubeStats struct {
	Tube    string
	Calls   [NumResults]uint64 // by result
	Late    uint64             // calls that ended after the lease of their job
	Seconds float64            // the sum of the durations of all calls
	Took    [numBuckets]uint64 // calls by Buckets, not cumulative
	Running int
	Waiting bool // there may be jobs, but they wait for one of the limits
}

// TargetStats is about one target: scheme, host and port.
type TargetStats struct {
	Target  string // such as https://example.org:443
	State   string // of the circuit breaker: closed (all is well), open (no calls), half-open (one call tries it)
	Running int
}

// counts are the counters of a subscription, guarded by Dispatcher.mu.
type counts struct {
	calls   [NumResults]uint64
	late    uint64
	seconds float64
	took    [numBuckets]uint64
}

func (c *counts) add(other *counts) {
	for i, n := range other.calls {
		c.calls[i] += n
	}
	for i, n := range other.took {
		c.took[i] += n
	}
	c.late += other.late
	c.seconds += other.seconds
}

// countsOf returns the counts of a subscription: its own if it is counted by name. The lock
// is held.
func (d *Dispatcher) countsOf(sub *subscription) *counts {
	if sub.gone {
		if sub = d.subscriptions[sub.name]; sub == nil {
			return &d.rest
		}
	}
	switch {
	case sub.counts != nil:
	case d.named < d.config.NamedTubes:
		d.named++
		sub.counts = new(counts)
	default:
		sub.counts = &d.rest
	}
	return sub.counts
}

// forgetCounts ends the counting of a subscription by name. The lock is held.
func (d *Dispatcher) forgetCounts(sub *subscription) {
	if sub.counts != nil && sub.counts != &d.rest {
		d.rest.add(sub.counts)
		d.named--
	}
	sub.counts = nil
}

// count counts a call. The lock is held.
func (d *Dispatcher) count(sub *subscription, r Result, took time.Duration) {
	c := d.countsOf(sub)
	c.calls[min(r, NumResults-1)]++
	if r == Skipped {
		return
	}
	c.seconds += took.Seconds()
	at, _ := slices.BinarySearch(Buckets, took.Seconds())
	c.took[at]++
}

// Stats returns the current figures.
func (d *Dispatcher) Stats() *Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &Stats{Running: d.running, Leased: d.leased, Pushing: len(d.subscriptions), Rest: d.rest.stats()}
	for _, sub := range d.subscriptions {
		waits := sub.backlog && (sub.blocked || sub.active >= sub.concurrency())
		if waits {
			s.Waiting++
		}
		if c := sub.counts; c != nil && c != &d.rest {
			stats := c.stats()
			stats.Tube, stats.Running, stats.Waiting = sub.name, sub.active, waits
			s.Tubes = append(s.Tubes, stats)
		}
	}
	for _, t := range d.targets {
		s.Targets = append(s.Targets, TargetStats{t.name, stateOf(t), t.active})
	}
	slices.SortFunc(s.Tubes, func(a, b TubeStats) int { return cmp.Compare(a.Tube, b.Tube) })
	slices.SortFunc(s.Targets, func(a, b TargetStats) int { return cmp.Compare(a.Target, b.Target) })
	return s
}

func (c *counts) stats() TubeStats {
	return TubeStats{Calls: c.calls, Late: c.late, Seconds: c.seconds, Took: c.took}
}

func stateOf(t *target) string {
	return map[gobreaker.State]string{
		gobreaker.StateClosed: "closed", gobreaker.StateOpen: "open", gobreaker.StateHalfOpen: "half-open",
	}[t.breaker.State()]
}

// logFailure logs a call that has failed, but not every time for the same target.
func (d *Dispatcher) logFailure(sub *subscription, t *target, j *Job, result *Outcome) {
	if result.Err == nil {
		return
	}
	about := []any{"tube", j.Tube, "job", j.ID, "delivery", j.Deliveries, "result", result.Result, "err", result.Err}
	if t != nil {
		t.log.Warn(d.config.Log, "a push has failed", append(about, "target", t.name)...)
		return
	}
	if result.Target != "" {
		about = append(about, "target", strings.ToLower(result.Target))
	}
	d.logOf(sub, result.Target).Warn(d.config.Log, "a callback has failed", about...)
}

// logOf returns the log of failed calls to a target; if the target is unknown, that of a
// gateway's subscription.
func (d *Dispatcher) logOf(sub *subscription, target string) *telemetry.Throttle {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.targets[strings.ToLower(target)]; t != nil {
		return &t.log
	}
	if sub.log == nil {
		sub.log = new(telemetry.Throttle)
	}
	return sub.log
}
