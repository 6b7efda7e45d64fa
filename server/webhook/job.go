package webhook

import (
	"context"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Source is tubes whose jobs a gateway calls by itself.
type Source struct {
	Tubes       []string      // valid names; no tube is in two sources
	Concurrency int           // calls at a time for each tube; 0: DefaultConcurrency
	Timeout     time.Duration // of one call; 0: DefaultTimeout

	// Rate bounds the calls in RateEvery for each tube; 0: it does not.
	Rate      int
	RateEvery time.Duration

	// Call is called for each job, on a goroutine of its own. ctx ends with the timeout,
	// or with the TTR of the job if that is earlier. A panic is a failure of the job.
	Call func(ctx context.Context, j *Job) Outcome
}

// Job is a job that was leased to be called, with what the store knows of it.
type Job struct {
	ID, Lease  uint64
	Tube       string
	Body       []byte // must not be changed
	Key        string // "": none
	Pri        uint32
	TTR        time.Duration
	Age        time.Duration // since the put, when it was leased
	Deliveries uint32        // this one included, since the put
	Failures   uint32        // so far, as the retry list counts them
	Rules      tube.Rules    // its own, and for the rest those of its tube
	FromTube   string        // of a dead letter: where it was parked; "": it is none
	FromID     uint64
	Deadline   time.Time // when its TTR is over, or a little earlier
}

// Verdict is what becomes of a job after its call.
type Verdict uint8

const (
	Fail     Verdict = iota // a failure: the retry list says when it is called again
	Done                    // deleted
	Later                   // released with Outcome.Delay; a failure as well, but the delay wins
	Park                    // parked: buried, or sent to its dead-letter tube
	GiveBack                // ready at once; counts as a delivery only
	Keep                    // nothing: Call has moved it by itself, or its TTR is to run out
)

// Result is how a call has ended, for the counters.
type Result uint8

const (
	Failed    Result = iota // it was answered otherwise, or whatever a gateway calls so
	Delivered               // it was answered well
	Postponed               // the target asked for another time
	Gone                    // the target wants such jobs no more
	TimedOut                // there was no answer in time
	Broken                  // there was no connection, or none that lasted
	Forbidden               // the address is not allowed
	Skipped                 // there was no call: the target is left alone, or this instance ends
	NumResults
)

// String returns the word for the metrics.
func (r Result) String() string {
	return [NumResults]string{"failed", "delivered", "postponed", "gone", "timeout", "broken", "forbidden", "skipped"}[r]
}

// Outcome is how a call has ended, and what becomes of its job.
type Outcome struct {
	Verdict Verdict
	Delay   time.Duration // for Later: rounded up to whole seconds; without any it is Fail
	Result  Result
	Err     error // goes to the log, throttled, if not nil; without secrets

	// Target is whom a gateway's call that has failed was made to, as Through was told it.
	// The log is throttled for each target by itself. "": not said.
	Target string
}

// LeftAlone is the Outcome of a job whose target is left alone for a while: it is called
// again then.
func LeftAlone() Outcome { return Outcome{Verdict: Later, Delay: breakFor, Result: Skipped} }

// longestDelay is the longest delay that a job may have.
const longestDelay = 10 * 365 * 24 * time.Hour

// seconds returns a delay as the rules have it: whole seconds, rounded up.
func seconds(d time.Duration) uint32 {
	return uint32((min(max(d, 0), longestDelay) + time.Second - 1) / time.Second)
}

// longestWait bounds the wait of a job without a retry list.
const longestWait = time.Hour

// backoff is the wait after a failure of a job without a retry list: 1 s, 2 s, 4 s … Otherwise
// it would be called again at once, and again.
func backoff(failures uint32) time.Duration {
	return min(time.Second<<min(failures, 12), longestWait)
}

// finish returns what the store is to do after the call; false if nothing.
func (j *Job) finish(o Outcome) (op storage.Op, ok bool) {
	op = storage.Op{Kind: storage.Move, Holder: tube.LeaseHolder, ID: j.ID, Args: &storage.Args{Lease: j.Lease}}
	switch o.Verdict {
	case Done:
		op.Move = tube.Delete
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
