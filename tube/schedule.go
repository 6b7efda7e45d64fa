package tube

import (
	"encoding/json"
	"fmt"
	"time"
)

// Schedule is the record of a schedule, which puts jobs at set times. When these are is not
// decided here: a store keeps the record, says when it is due, and changes it only for a caller who
// has read its latest version. A Schedule is never changed, only replaced. The contract is
// docs/schedules.md.
type Schedule struct {
	Name    string `json:"-"`
	Version uint64 `json:"-"` // of the first record 1, of each record that replaces one 1 more
	Body    []byte `json:"-"` // of its jobs

	// Of its jobs. Tags has neither At, OnDuplicate nor Occurrence; nil: none.
	Tube string
	Pri  uint32 `json:",omitzero"`
	TTR  uint32 // seconds
	Tags *Tags  `json:",omitzero"`

	Timing
	Overlap    Overlap       `json:",omitzero"`
	HasCatchUp bool          `json:",omitzero"`
	CatchUp    time.Duration `json:",omitzero"` // how late an occurrence can be put; whole milliseconds
	CatchUpAll uint32        `json:",omitzero"` // how many missed occurrences are put; 0: the latest one

	// Due is when the record is to be examined next; Never: not until it is replaced.
	Due Instant

	// Begin is when the present Timing was set: no occurrence is before it. Last is the nominal time of
	// the last occurrence that was put or skipped; 0: none was. Next is that of the next one; 0: there
	// is none. They are whole milliseconds.
	Begin, Last, Next Instant `json:",omitzero"`

	Paused  bool   `json:",omitzero"`
	Missed  uint64 `json:",omitzero"` // occurrences that were skipped because nobody put them in time
	Stopped uint64 `json:",omitzero"` // those that were skipped because the schedule was paused

	Results ScheduleResults `json:"-"`
}

// Timing says when the occurrences of a schedule are. A Schedule whose Timing stays the same keeps
// its place.
type Timing struct {
	Cron  string        `json:",omitzero"` // an expression; "": none
	Every time.Duration `json:",omitzero"` // the distance of occurrences; whole milliseconds; 0 if there is a Cron
	Zone  string        `json:",omitzero"` // the time zone of Cron; "": UTC

	// From and Until are the first and the last possible nominal time; 0: none. Whole milliseconds.
	From, Until Instant `json:",omitzero"`

	// Spread is how much later than its nominal time an occurrence can be put, so that not all
	// schedules put at once; whole milliseconds.
	Spread time.Duration `json:",omitzero"`
}

// Overlap says what happens if the job of the occurrence before is not gone when the next one is
// due. All but OverlapAllow give the job a key.
type Overlap uint8

const (
	OverlapSkip    Overlap = iota // nothing is put
	OverlapReplace                // the job is removed, whoever holds it
	OverlapAllow                  // there can be any number
	OverlapBuffer                 // one is put, which starts after it; if there is one already, nothing
)

// OverlapWords are the values of the tag overlap, indexed by Overlap.
var OverlapWords = []string{"skip", "replace", "allow", "buffer-one"}

// ScheduleResults are what the puts of a schedule have come to. The store counts them in the step
// that puts.
type ScheduleResults struct {
	Put        uint64 // jobs
	Overlapped uint64 // puts that another job prevented, see Overlap
	Refused    uint64 // puts that the quota of the tube prevented, or that the batch was sealed

	// Of the last put: when it was, its nominal time, and its result. ID is the new job, or the job that
	// has prevented it.
	At, Nominal Instant
	Result      PutResult
	ID          uint64
}

// Count counts a put.
func (r *ScheduleResults) Count(now, nominal Instant, a PutAnswer) {
	switch a.Result {
	case PutNew:
		r.Put++
	case PutRefused, PutSealed:
		r.Refused++
	default:
		r.Overlapped++
	}
	r.At, r.Nominal, r.Result, r.ID = now, nominal, a.Result, a.ID
}

// LastWord returns a word for the result of the last put; "" if there was none.
func (r *ScheduleResults) LastWord() string {
	switch {
	case r.At == 0:
		return ""
	case r.Result == PutNew:
		return "put"
	case r.Result == PutRefused:
		return "refused"
	case r.Result == PutSealed:
		return "sealed"
	}
	return "overlapped"
}

// Occurrence says which schedule has put a job, and for which time.
type Occurrence struct {
	Schedule string
	Nominal  Instant // a whole millisecond
}

// ClaimTime is how long a schedule that was due, and whose record was handed out for that, is not
// handed out again: if whoever got it is gone, somebody else puts its job after that.
const ClaimTime = 2 * time.Second

// RecordName and DueAt implement NamedRecord.
func (s *Schedule) RecordName() string { return s.Name }
func (s *Schedule) DueAt() Instant     { return s.Due }

// Text returns what is stored of s, as text, besides Name, Version, Body and Results.
func (s *Schedule) Text() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("encoding a schedule: %v", err)) // it has nothing but numbers and strings
	}
	return string(text)
}

// ParseSchedule is the reverse of Schedule.Text.
func ParseSchedule(text string) (*Schedule, error) {
	s := new(Schedule)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, fmt.Errorf("decoding a schedule: %w", err)
	}
	return s, nil
}
