package webhook

import (
	"context"
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// Source is a set of tubes for whose jobs a gateway makes the calls itself.
type Source struct {
	Tubes       []string      // valid names; no tube is in two sources
	Concurrency int           // concurrent calls for each tube; 0: DefaultConcurrency
	Timeout     time.Duration // of one call; 0: DefaultTimeout

	// Call is called for each job, on a goroutine of its own. ctx ends with the timeout, or with
	// the TTR of the job if that is earlier. A panic counts as a failure of the job.
	Call func(ctx context.Context, j *Job) Outcome
}

// Job is a leased job that is to be called, with its stats.
type Job struct {
	ID, Lease  uint64
	Tube       string
	Body       []byte // must not be changed
	Key        string // "": none
	Group      string // "": none
	Pri        uint32
	TTR        time.Duration
	Age        time.Duration // since the put, at the time of the lease
	Deliveries uint32        // this one included, since the put
	Failures   uint32        // so far, as the retry list counts them
	Rules      tube.Rules    // its own; where it has none, those of its tube
	FromTube   string        // for a dead letter: where it was parked; else ""
	FromID     uint64
	Notes      *tube.Notes      // nil: none
	Occurrence *tube.Occurrence // nil: no schedule has put it
	Deadline   time.Time        // when its TTR ends, or a little earlier

	checkpointBytes int // size of its checkpoint; 0: it has none
}

// keeps reports whether a record of the job is kept, unless the server keeps none.
func (j *Job) keeps() bool { return j.Rules.Keep.Duration() > 0 }

// Verdict is what happens to a job after its call.
type Verdict uint8

const (
	Fail     Verdict = iota // a failure: the retry list says when it is called again
	Done                    // deleted
	Later                   // released with Outcome.Delay; also a failure, but with this delay
	Park                    // parked: buried, or sent to its dead-letter tube
	GiveBack                // ready at once; counts only as a delivery
	Keep                    // nothing: Call has moved it by itself, or its TTR is to run out
)

// Result classifies how a call has ended, for the counters.
type Result uint8

const (
	Failed    Result = iota // it got another answer, or the gateway calls it a failure
	Delivered               // it got a success
	Postponed               // the target asked for a later time
	Gone                    // the target does not want such jobs any more
	TimedOut                // there was no answer in time
	Broken                  // there was no connection, or it broke
	Forbidden               // the address is not allowed
	Skipped                 // there was no call: the circuit breaker is open, or this instance ends
	NumResults
)

// String returns the name of a result in metrics.
func (r Result) String() string {
	return [NumResults]string{"failed", "delivered", "postponed", "gone", "timeout", "broken", "forbidden", "skipped"}[r]
}

// Outcome is how a call has ended, and what happens to its job.
type Outcome struct {
	Verdict Verdict
	Delay   time.Duration // for Later: rounded up to whole seconds; 0 means Fail
	Result  Result
	Err     error // if not nil, logged, throttled; must not contain secrets

	// Reason is why the job has failed, any text; "": Err says it. It stays with the job, where
	// those who may read the job see it.
	Reason string

	// Answer is the result of a job that is Done; empty: it has none.
	Answer []byte

	// Target is the target of a gateway's failed call, as it was passed to Through. The log is
	// throttled separately for each target. "": unknown.
	Target string
}

// BreakerOpen returns the Outcome of a job for whose target the circuit breaker is open: it
// is called again when the breaker may let a call through.
func BreakerOpen() Outcome { return Outcome{Verdict: Later, Delay: breakFor, Result: Skipped} }

// longestDelay is the longest delay that a job may have.
const longestDelay = 10 * 365 * 24 * time.Hour

// seconds returns a delay in whole seconds, rounded up.
func seconds(d time.Duration) uint32 {
	return uint32((min(max(d, 0), longestDelay) + time.Second - 1) / time.Second)
}

// longestWait limits the wait of a job without a retry list.
const longestWait = time.Hour

// backoff returns the wait after a failure of a job without a retry list: 1 s, 2 s, 4 s …
// Without it, the job would be called again immediately, over and over.
func backoff(failures uint32) time.Duration {
	return min(time.Second<<min(failures, 12), longestWait)
}

// reason returns why a job has failed, "" if that is not known.
func (o *Outcome) reason() string {
	reason := protocol.CleanReason(o.Reason)
	if reason == "" && o.Err != nil {
		reason = protocol.CleanReason(o.Err.Error())
	}
	return reason
}

// holderName is under which name calls hold jobs, for records and attempts.
const holderName = "webhook"

// finish returns the operation for the store after the call; false if there is none.
func (j *Job) finish(o Outcome) (op storage.Op, ok bool) {
	op = storage.Op{Kind: storage.Move, Holder: tube.LeaseHolder, ID: j.ID, Args: &storage.Args{Lease: j.Lease, By: holderName}}
	if o.Verdict == Fail || o.Verdict == Later || o.Verdict == Park {
		op.Args.Reason = o.reason()
	}
	switch o.Verdict {
	case Done:
		if op.Move = tube.Delete; len(o.Answer) > 0 {
			op.Move, op.Args.Data = tube.Finish, o.Answer
		}
	case Park:
		op.Move = tube.Park
	case GiveBack:
		op.Move = tube.GiveBack
	case Keep:
		return op, false
	default:
		op.Move, op.Pri = tube.Release, j.Pri
		if o.Verdict == Later {
			op.Delay = seconds(o.Delay)
		}
		if op.Delay == 0 && len(j.Rules.Retry) == 0 {
			op.Delay = seconds(backoff(j.Failures))
		}
	}
	return op, true
}
