package tube

import (
	"time"
)

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

// OnlyGroupOrBatch reports whether t says in which group the job is, or of which batch it is a member, and nothing else.
func (t *Tags) OnlyGroupOrBatch() bool {
	return (t.Group != "") != (t.Batch != "") && t.Key == "" && !t.HasDelay && !t.HasAt && t.OnDuplicate == NotSaid && t.Expire == NoLifetime && t.ExpiresAt == 0 &&
		t.Rules.Empty() && t.Meta == nil && t.Trace == "" && t.Reason == "" && t.After == "" && t.Occurrence == nil
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
