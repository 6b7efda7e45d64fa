package tube

import "time"

// Tags are what a put may say of its job beyond priority, delay and TTR. The contract is
// docs/extensions.md.
type Tags struct {
	// Delay, if HasDelay, is used instead of NewJob.Delay: whole milliseconds.
	Delay    time.Duration
	HasDelay bool

	// At, if HasAt, is when the job is due: ready at once if that has passed.
	At    Instant
	HasAt bool

	Key         string      // the name of the job in its tube; "": none
	OnDuplicate OnDuplicate // what happens if a job has the key already
	Rules                   // those of the job's own
}

// OnDuplicate says what a put does if a job of its tube has the key, or had it not long
// ago.
type OnDuplicate uint8

const (
	NotSaid OnDuplicate = iota // the tube's policy says it, or else Keep
	Keep                       // nothing is put
	Replace                    // the other job is removed, whoever holds it
	Fail                       // nothing is put, and the client is told
)

// Rules are what a job's tags or a tube's policy say about failures and keys. What is not
// said is zero.
type Rules struct {
	Retry     []time.Duration // the wait after the 1st, 2nd … failure; whole milliseconds
	Max       uint32          // deliveries
	Dead      string          // the tube where an exhausted job goes, instead of being buried
	KeyTTL    time.Duration   // how long a key stays taken when its job is gone; whole milliseconds
	HasKeyTTL bool
}

// Over returns r, with what it does not say from other, which may be nil.
func (r Rules) Over(other *Policy) Rules {
	if other == nil {
		return r
	}
	if r.Retry == nil {
		r.Retry = other.Retry
	}
	if r.Max == 0 {
		r.Max = other.Max
	}
	if r.Dead == "" {
		r.Dead = other.Dead
	}
	if !r.HasKeyTTL {
		r.KeyTTL, r.HasKeyTTL = other.KeyTTL, other.HasKeyTTL
	}
	return r
}

// empty tells whether r says nothing.
func (r *Rules) empty() bool {
	return r.Retry == nil && r.Max == 0 && r.Dead == "" && !r.HasKeyTTL
}

// Policy is what holds for the jobs of a tube that do not say otherwise, and the tube's
// quotas. A policy is never changed, only replaced.
type Policy struct {
	Rules
	OnDuplicate   OnDuplicate
	QuotaJobs     uint64 // how many jobs the tube may have
	QuotaBytes    uint64 // how many bytes their bodies may have together
	HasQuotaJobs  bool
	HasQuotaBytes bool
	Push          Push // where the jobs are sent; its zero value: nowhere
}

// Push says that the jobs of a tube are sent to a URL, instead of waiting for somebody who
// reserves them. The contract is docs/push.md. What is not said is zero.
type Push struct {
	URL         string        // http or https; "": nothing is sent
	Concurrency uint32        // calls at a time, of each instance
	Timeout     time.Duration // of one call; whole milliseconds
	Rate        uint32        // calls in RateEvery
	RateEvery   time.Duration // whole milliseconds; 0 if Rate is
}

// Admits tells whether a tube with so many jobs, whose bodies have so many bytes, may get
// one more with size bytes. p may be nil.
func (p *Policy) Admits(jobs, bytes, size uint64) bool {
	if p == nil {
		return true
	}
	return (!p.HasQuotaJobs || jobs < p.QuotaJobs) && (!p.HasQuotaBytes || bytes+size <= p.QuotaBytes)
}

// Outcome is how a delivery has ended, as far as it matters to the rules of a job.
type Outcome uint8

const (
	NoOutcome Outcome = iota // the job has not come back, or a client has put it aside
	Failure                  // it was released, or its TTR has run out
	Lost                     // its holder's connection is gone
	Refused                  // whoever got it wants it no more
)

// Parked says why a job was buried, or moved to its dead-letter tube.
type Parked uint8

const (
	NotParked        Parked = iota
	ParkedRetries           // the list of waits is used up
	ParkedDeliveries        // it has been delivered as often as it may
	ParkedRefused           // whoever got it wants it no more

	// LastParked is the highest of them.
	LastParked = ParkedRefused
)

// String returns the word that stats-job prints.
func (p Parked) String() string { return [...]string{"", "retries", "deliveries", "refused"}[p] }

// After returns what becomes of a job that comes back. failures and deliveries are how many
// it has had, this one included: since the put, or since it was last kicked while it was
// parked. If it is not parked, it is due after wait.
func (r *Rules) After(o Outcome, failures, deliveries uint32) (p Parked, wait time.Duration) {
	if o == Refused {
		return ParkedRefused, 0
	}
	if o == Failure && len(r.Retry) > 0 {
		if int64(failures) > int64(len(r.Retry)) {
			return ParkedRetries, 0
		}
		wait = r.Retry[max(failures, 1)-1]
	}
	if r.Max > 0 && deliveries >= r.Max {
		return ParkedDeliveries, 0
	}
	return NotParked, wait
}

// Failures returns how many failures a job has had that these counters belong to, and
// Deliveries how many deliveries, since its put.
func (c *Counters) Failures() uint32 { return c[Releases] + c[Timeouts] }

// Deliveries returns how often the job was reserved.
func (c *Counters) Deliveries() uint32 { return c[Reserves] }
