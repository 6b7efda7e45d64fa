package tube

// Notes are what is known of a job for people and for its workers. No rule depends on them. They
// are never changed, only replaced.
type Notes struct {
	Meta     []Meta  // what it was put with, in that order
	Trace    string  // the W3C trace context of its put; "": none
	Reason   string  // why its last failure happened, or why it was buried, as far as that was said; "": not said
	FailedAt Instant // when that was said, a wall time in whole milliseconds; 0 without a Reason
}

// Meta is a name with its value that a put adds to a job.
type Meta struct{ Name, Value string }

// MaxReason is the longest reason, in bytes.
const MaxReason = 512

// ReasonTTR is the reason of a failure because a TTR has run out.
const ReasonTTR = "ttr"

var noNotes Notes

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
