package tube

import "time"

// JobBatch is what a part of a store knows of a batch: a set of jobs, its members, after which other
// jobs are to run, its after-jobs. A store has several parts if it is divided (partitions of Redis); each
// counts the members in its own tubes, and has the after-jobs of its own tubes. Whether a batch has ended
// is not decided here but by package server/jobbatch, which looks at all parts and answers with a
// Settlement. The contract is docs/batches.md.
//
// A member is pending until it ends. It is parked while it is buried, or is a dead letter (Metadata.Home is
// not empty). It is done once it was deleted, in whatever state, by Move Delete; it is gone once it was
// removed in another way: by DeleteKey, Flush, CancelBatch, replacement (unless by a job of the same batch)
// or at the end of its time. A job that is moved, sent to a dead-letter tube or back is still the same
// member: the new job takes its place in the same step.
type JobBatch struct {
	Name string
	Part int // which part of the store this is; 0 if there is only one

	Created Instant       // when this part first heard of the batch; a whole millisecond
	TTL     time.Duration // what the first put said that set it; whole milliseconds; 0: none has
	Sealed  bool          // no more members come

	// Of the members that are or were in this part. Pending and Parked ones exist.
	Pending, Parked, Done, Gone uint64

	// Stamp grows whenever a member becomes pending, and when the batch is sealed. As long as it is the
	// same, Pending has not grown.
	Stamp uint64

	// AfterHeld is how many after-jobs are held in this part; AfterFailed, how many are parked in it because of
	// the batch. After are the first of them all, by id, without bodies; only GetBatch says it.
	AfterHeld, AfterFailed uint64
	After                  []JobStats

	Verdict Verdict // the last one, see Settlement
	Since   Instant // when it became that; a whole millisecond; 0 if there was no Settlement
	Due     Instant // when this part is to be examined next; Never: not until something happens
}

// RecordName and DueAt implement NamedRecord.
func (b *JobBatch) RecordName() string { return b.Name }
func (b *JobBatch) DueAt() Instant     { return b.Due }

// Verdict is what is known of a batch as a whole.
type Verdict uint8

const (
	BatchOpen     Verdict = iota // nothing: after-jobs stay held
	BatchFailing                 // a member is gone, others are pending or may come: jobs with after: are parked
	BatchUnsealed                // it was not sealed in time: all after-jobs are parked
	BatchFailed                  // sealed, none is pending, some are parked or gone: jobs with after: are parked, with after-all: run
	BatchDone                    // sealed, and all members are done: all after-jobs run, those that were parked before too
	BatchCyclic                  // its members wait for its after-jobs: all after-jobs are parked

	// LastVerdict is the largest of them.
	LastVerdict = BatchCyclic
)

// String returns a word for it.
func (v Verdict) String() string {
	return [...]string{"open", "failing", "unsealed", "failed", "done", "cyclic"}[v]
}

// Settlement carries a verdict out in one part of a store.
type Settlement struct {
	Part    int
	Stamp   uint64 // of the part, as it was when the verdict was found; with another one nothing is done
	Verdict Verdict
	Due     Instant // when the part is to be examined again if nothing happens; Never: not

	// These are of the record of the part from which the verdict follows, see Overtakes.
	Pending, Parked, Gone uint64
	TTL                   time.Duration

	// Forget removes the record instead, if it has no members that exist and no after-jobs.
	Forget bool
}

// Settlement returns the settlement of a part with this record.
func (b *JobBatch) Settlement(v Verdict, due Instant) *Settlement {
	return &Settlement{Part: b.Part, Stamp: b.Stamp, Verdict: v, Due: due, Pending: b.Pending, Parked: b.Parked, Gone: b.Gone, TTL: b.TTL}
}

// Overtakes reports whether b, the record of a part now, has changed since the verdict of s was found in such a way that it must be
// examined at once, whatever s says: the last pending member has ended, or a parked one after it, the first one is gone, or the TTL was set.
func (b *JobBatch) Overtakes(s *Settlement) bool {
	ended := b.Sealed && b.Pending == 0 && (s.Pending != 0 || b.Parked != s.Parked || b.Gone != s.Gone)
	return ended || b.Gone > 0 && s.Gone == 0 || b.TTL != s.TTL
}

// DefaultBatchTTL is how long a batch may stay unsealed, and how long its record is kept after its end, if no put says it.
const DefaultBatchTTL = 24 * time.Hour

// MaxAfter is how many after-jobs JobBatch.After can have.
const MaxAfter = 100

// Fate returns what a verdict does with an after-job; all says that it has after-all, not after.
func (v Verdict) Fate(all bool) Fate {
	switch {
	case v == BatchDone, v == BatchFailed && all:
		return FateRun
	case v == BatchUnsealed:
		return FateParkUnsealed
	case v == BatchCyclic, !all && (v == BatchFailing || v == BatchFailed):
		return FateParkFailed
	}
	return FateHeld
}

// Fate is what a verdict does with an after-job.
type Fate uint8

const (
	FateHeld         Fate = iota // it stays as it is, held or parked
	FateRun                      // a held job, or one that is parked because of the batch, becomes due
	FateParkFailed               // a held job is parked: ParkedBatchFailed
	FateParkUnsealed             // a held job is parked: ParkedBatchUnsealed
	FateWait                     // a parked job is held again: see Reopens
)

// Reopens reports whether a verdict says that a batch is not BatchUnsealed any more: it was sealed after all, or the clock that has
// said so was wrong. Then the jobs that are parked, and would be held by the new verdict, are held again, before b has that one.
func (b *JobBatch) Reopens(v Verdict) bool { return b.Verdict == BatchUnsealed && v != BatchUnsealed }
