package tube

import "time"

// Tags are what a put can say about its job beyond priority, delay and TTR. The contract is
// docs/extensions.md. As JSON they are part of the record of a schedule.
type Tags struct {
	// Delay, if HasDelay, is used instead of NewJob.Delay: whole milliseconds.
	Delay    time.Duration `json:",omitzero"`
	HasDelay bool          `json:",omitzero"`

	// At, if HasAt, is when the job is due; it is ready at once if that has passed.
	At    Instant `json:",omitzero"`
	HasAt bool    `json:",omitzero"`

	Key         string      `json:",omitzero"` // the name of the job in its tube; "": none
	Group       string      `json:",omitzero"` // of the job in its tube; "": none
	OnDuplicate OnDuplicate `json:",omitzero"` // what happens if a job has the key already
	Expire      Lifetime    `json:",omitzero"`
	Rules                   // the job's own

	Meta  []Meta `json:",omitzero"` // nil: none
	Trace string `json:",omitzero"` // its W3C trace context; "": none

	// Of the copy of a job: ExpiresAt is used instead of Expire, unless it is 0; a whole millisecond. Reason
	// and FailedAt are those of Notes.
	ExpiresAt Instant `json:",omitzero"`
	Reason    string  `json:",omitzero"`
	FailedAt  Instant `json:",omitzero"`

	// Batch is the batch of which the job is a member; "": of none. BatchTTL is its JobBatch.TTL, unless that is
	// set already; 0: not said. After is the batch after which the job runs; "": of none. AfterAll says that it
	// also runs if members are parked or gone. Neither HasAt nor an After equal to Batch goes with an After.
	Batch    string        `json:",omitzero"`
	BatchTTL time.Duration `json:",omitzero"`
	After    string        `json:",omitzero"`
	AfterAll bool          `json:",omitzero"`

	Occurrence *Occurrence `json:",omitzero"` // of the schedule that puts it, or of the job that it is a copy of; nil: none
}

// OnDuplicate says what a put does if a job of its tube has the key, or had it recently.
type OnDuplicate uint8

const (
	NotSaid OnDuplicate = iota // the tube's policy decides, or else Keep
	Keep                       // nothing is put
	Replace                    // the other job is removed, whoever holds it
	Fail                       // nothing is put, and the client gets an error

	// Follow is Keep, unless the other job has been started at least once since it was put or replayed:
	// then the new job gets the key, and the other has none any more, nor leaves a tombstone of it. Only
	// schedules use it.
	Follow
)

// Rules are what a job's tags or a tube's policy say about failures and keys. A value that is
// not set is zero. The small fields are together: there are Rules for every job with tags.
type Rules struct {
	Retry     []time.Duration `json:",omitzero"` // the waits after failures, see waitAfter; whole milliseconds
	Max       uint32          `json:",omitzero"` // largest number of deliveries
	Doubled   uint8           `json:",omitzero"` // Retry is the first and the longest of that many waits; 0: Retry is a list
	Jitter    Jitter          `json:",omitzero"` // how far each wait is spread
	HasKeyTTL bool            `json:",omitzero"`
	OnExpire  OnExpire        `json:",omitzero"` // what happens to a job when its time is over
	Dead      string          `json:",omitzero"` // the tube where an exhausted job goes, instead of being buried
	KeyTTL    time.Duration   `json:",omitzero"` // how long a key stays taken after its job is gone; whole milliseconds
}

// Over returns r, with the values it does not set taken from other, which may be nil.
func (r Rules) Over(other *Policy) Rules {
	if other == nil {
		return r
	}
	if r.Retry == nil {
		r.Retry, r.Doubled = other.Retry, other.Doubled
	}
	if r.Jitter == NoJitter {
		r.Jitter = other.Jitter
	}
	if r.OnExpire == NoOnExpire {
		r.OnExpire = other.OnExpire
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

// empty reports whether r sets nothing.
func (r *Rules) empty() bool {
	return r.Retry == nil && r.Jitter == NoJitter && r.OnExpire == NoOnExpire && r.Max == 0 && r.Dead == "" && !r.HasKeyTTL
}

// OnlyGroup reports whether t says that the job is in a group, and nothing else.
func (t *Tags) OnlyGroup() bool {
	return t.Group != "" && t.Key == "" && !t.HasDelay && !t.HasAt && t.OnDuplicate == NotSaid && t.Expire == NoLifetime && t.ExpiresAt == 0 &&
		t.Rules.empty() && t.Meta == nil && t.Trace == "" && t.Reason == "" && t.Batch == "" && t.After == "" && t.Occurrence == nil
}

// Policy is what applies to the jobs of a tube that do not say otherwise, and the tube's
// quotas. A policy is never changed, only replaced.
type Policy struct {
	Rules
	Expire        Lifetime
	OnDuplicate   OnDuplicate
	QuotaJobs     uint64 // how many jobs the tube can have
	QuotaBytes    uint64 // how many bytes their bodies can have together
	HasQuotaJobs  bool
	HasQuotaBytes bool
	Limits        Limits     // of the tube
	GroupLimits   Limits     // of each of its groups
	GroupOrder    GroupOrder // within a group
	Push          Push       // where the jobs are sent; the zero value: nowhere
}

// Push says that the jobs of a tube are sent to a URL (a webhook) instead of waiting for a
// reserve. The contract is docs/push.md. A value that is not set is zero.
type Push struct {
	URL         string        // http or https; "": nothing is sent
	Concurrency uint32        // calls at a time, per instance
	Timeout     time.Duration // of one call; whole milliseconds
	Rate        uint32        // calls per RateEvery
	RateEvery   time.Duration // whole milliseconds; 0 if Rate is 0
}

// Admits reports whether a tube that has this many jobs, with this many bytes in their bodies,
// can get one more of size bytes. p may be nil.
func (p *Policy) Admits(jobs, bytes, size uint64) bool {
	if p == nil {
		return true
	}
	return (!p.HasQuotaJobs || jobs < p.QuotaJobs) && (!p.HasQuotaBytes || bytes+size <= p.QuotaBytes)
}

// Outcome is how a delivery ended, as far as it matters to the rules of a job.
type Outcome uint8

const (
	NoOutcome Outcome = iota // the delivery has not ended, or a client has buried the job
	Failure                  // the job was released, or its TTR has run out
	Lost                     // its holder's connection is gone
	Refused                  // its consumer rejected it for good
)

// Parked says why a job was buried, or moved to its dead-letter tube.
type Parked uint8

const (
	NotParked        Parked = iota
	ParkedRetries           // the list of waits is used up
	ParkedDeliveries        // the largest number of deliveries is reached
	ParkedRefused           // its consumer rejected it for good
	ParkedExpired           // its time was over

	// The two reasons for after-jobs, see Verdict.
	ParkedBatchFailed
	ParkedBatchUnsealed

	// LastParked is the largest of them.
	LastParked = ParkedBatchUnsealed
)

// String returns the word that stats-job prints.
func (p Parked) String() string {
	return [...]string{"", "retries", "deliveries", "refused", "expired", "batch-failed", "batch-unsealed"}[p]
}

// Failures returns how many failures these counters have seen since the put: releases and
// timeouts.
func (c *Counters) Failures() uint32 { return c[Releases] + c[Timeouts] }

// Deliveries returns how often the job was reserved since its put.
func (c *Counters) Deliveries() uint32 { return c[Reserves] }
