package webhook

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"redstalk/storage/telemetry"
)

// Buckets are the upper bounds of a histogram of how long calls took, in seconds. What took
// longer is in one bucket more.
var Buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

const numBuckets = 14 // len(Buckets) + 1

// Stats is what has become of calls since the Dispatcher began, and how it stands.
type Stats struct {
	Tubes   []TubeStats   // that are counted by name, and have had a call, in the order of their names
	Rest    TubeStats     // all other calls; without a name
	Targets []TargetStats // in the order of their names
	Running int           // calls under way
	Leased  int           // jobs that are called, or whose calls are about to be told to the store
	Pushing int           // tubes that push, with calls or without
	Waiting int           // of these, tubes that may have jobs, which wait for one of the limits
}

// TubeStats is about one tube. Its counters do not shrink. When the tube pushes no more they
// go to Stats.Rest.
type TubeStats struct {
	Tube    string
	Calls   [NumResults]uint64 // by how they have ended
	Late    uint64             // calls that ended when the job was not leased by them any more
	Seconds float64            // that all calls together took
	Took    [numBuckets]uint64 // calls by Buckets, not cumulated
	Running int
	Waiting bool // there may be jobs, which wait for one of the limits
}

// TargetStats is about one scheme, host and port.
type TargetStats struct {
	Target  string // such as https://example.org:443
	State   string // of the breaker: closed (all is well), open (it is left alone), half-open (it is tried)
	Running int
}

// counts are those of an outlet, guarded by Dispatcher.mu.
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

// countsOf returns the counts of an outlet. Those are its own if it is counted by name. The
// lock is held.
func (d *Dispatcher) countsOf(o *outlet) *counts {
	if o.gone {
		if o = d.outlets[o.name]; o == nil {
			return &d.rest
		}
	}
	switch {
	case o.counts != nil:
	case d.named < d.config.NamedTubes:
		d.named++
		o.counts = new(counts)
	default:
		o.counts = &d.rest
	}
	return o.counts
}

// forgetCounts ends that an outlet is counted by name. The lock is held.
func (d *Dispatcher) forgetCounts(o *outlet) {
	if o.counts != nil && o.counts != &d.rest {
		d.rest.add(o.counts)
		d.named--
	}
	o.counts = nil
}

// count counts a call. The lock is held.
func (d *Dispatcher) count(o *outlet, r Result, took time.Duration) {
	c := d.countsOf(o)
	c.calls[min(r, NumResults-1)]++
	if r == Skipped {
		return
	}
	c.seconds += took.Seconds()
	at, _ := slices.BinarySearch(Buckets, took.Seconds())
	c.took[at]++
}

// Stats returns the present figures.
func (d *Dispatcher) Stats() *Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &Stats{Running: d.running, Leased: d.leased, Pushing: len(d.outlets), Rest: d.rest.stats()}
	for _, o := range d.outlets {
		waits := o.hungry && (o.blocked || o.active >= o.concurrency())
		if waits {
			s.Waiting++
		}
		if c := o.counts; c != nil && c != &d.rest {
			stats := c.stats()
			stats.Tube, stats.Running, stats.Waiting = o.name, o.active, waits
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
func (d *Dispatcher) logFailure(o *outlet, t *target, j *Job, result *Outcome) {
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
	d.logOf(o, result.Target).Warn(d.config.Log, "a callback has failed", about...)
}

// logOf returns the log of failed calls to a target; of a gateway's outlet, if the target is not
// known.
func (d *Dispatcher) logOf(o *outlet, target string) *telemetry.Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.targets[strings.ToLower(target)]; t != nil {
		return &t.log
	}
	if o.log == nil {
		o.log = new(telemetry.Log)
	}
	return o.log
}
