package tube

import "unicode/utf8"

// Notes are what is known of a job for people and for its workers. No rule depends on them. They
// are never changed, only replaced.
type Notes struct {
	Meta     []Meta  // what it was put with, in that order
	Trace    string  // the W3C trace context of its put; "": none
	Reason   string  // why its last failure happened, or why it was buried, as far as that was said; "": not said
	FailedAt Instant // when that was said, a wall time in whole milliseconds; 0 without a Reason

	Attempts []Attempt // its last deliveries that have failed, the newest first, at most MaxAttempts
	FirstPut Instant   // of a dead letter, and of what became of it: when the first of these jobs was put, a wall time in whole milliseconds; 0: of any other
}

// Attempt is a delivery that has failed. Those of jobs without metadata, in tubes without a policy, are recorded only if a reason was given:
// such jobs are as in beanstalkd. So is a bury: administrators and imports bury, too.
type Attempt struct {
	At     Instant // when it ended, a wall time in whole milliseconds
	How    Failed
	Holder string // who held the job, as Ended.Holder
	Reason string // the first MaxAttemptReason bytes of why, as far as that was said; whole characters
}

const (
	// MaxAttempts is how many attempts a job keeps.
	MaxAttempts = 5
	// MaxAttemptReason is the longest Attempt.Reason, in bytes.
	MaxAttemptReason = 200
)

// Failed says how a delivery has failed. Stores have these numbers.
type Failed uint8

const (
	NotFailed Failed = iota
	FailedByRelease
	FailedByTTR
	FailedByBury
	FailedByRefusal // see Park

	LastFailed = FailedByRefusal
)

// String returns the word of the protocol.
func (f Failed) String() string {
	return [...]string{"", "released", "timed-out", "buried", "refused"}[f]
}

// Failed returns how a delivery fails that ends by the move.
func (m Move) Failed() Failed {
	switch m {
	case Release:
		return FailedByRelease
	case Expire:
		return FailedByTTR
	case Bury:
		return FailedByBury
	case Park:
		return FailedByRefusal
	}
	return NotFailed
}

// Meta is a name with its value that a put adds to a job.
type Meta struct{ Name, Value string }

// MaxReason is the longest reason, in bytes.
const MaxReason = 512

// ReasonTTR is the reason of a failure because a TTR has run out.
const ReasonTTR = "ttr"

var noNotes Notes

// withAttempt returns the notes with one more attempt.
func (n *Notes) withAttempt(a Attempt) *Notes {
	more := *n
	more.Attempts = append(make([]Attempt, 0, MaxAttempts), a)
	more.Attempts = append(more.Attempts, n.Attempts[:min(len(n.Attempts), MaxAttempts-1)]...)
	return &more
}

// attemptReason returns what an attempt has of a reason.
func attemptReason(reason string) string {
	if len(reason) <= MaxAttemptReason {
		return reason
	}
	end := MaxAttemptReason
	for end > 0 && !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}

// AllNotes returns the notes of a job, empty ones if it has none. They must not be changed.
func (f *Metadata) AllNotes() *Notes {
	if f == nil || f.Notes == nil {
		return &noNotes
	}
	return f.Notes
}

// Notes returns the notes that tags set, nil if none.
func (t *Tags) Notes() *Notes {
	if t.Meta == nil && t.Trace == "" && t.Reason == "" {
		return nil
	}
	return &Notes{Meta: t.Meta, Trace: t.Trace, Reason: t.Reason, FailedAt: t.FailedAt}
}
