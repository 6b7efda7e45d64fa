package jobbatch

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Summary is what is known of a batch as a whole.
type Summary struct {
	Name  string
	State string // open, sealed, failing, unsealed, failed, done or cyclic

	Sealed                      bool // in all parts of the store: no more members come
	Pending, Parked, Done, Gone uint64
	AfterHeld, AfterFailed      uint64 // after-jobs that wait, and that are parked because of the batch

	Created tube.Instant
	Age     time.Duration
	TTL     time.Duration   // how long it can stay unsealed, and is known after its end
	After   []tube.JobStats // the first after-jobs
}

// Total returns how many members the batch has had.
func (s *Summary) Total() uint64 { return s.Pending + s.Parked + s.Done + s.Gone }

// jobs returns how many jobs of the batch exist: members, and jobs that run after it.
func (s *Summary) jobs() uint64 { return s.Pending + s.Parked + s.AfterHeld + s.AfterFailed }

// batch is what all parts of a store know of one batch.
type batch struct {
	name  string
	parts []*tube.JobBatch // those that have a record
	of    int              // how many parts the store has
	now   tube.Instant
	sure  bool // it was like that at one moment, see readAgain
}

func batchOf(name string, r *storage.Result) *batch {
	return &batch{name: name, parts: r.Batches(), of: r.Parts, now: r.Now}
}

// summary adds up the parts. If they are several, that need not have been so at any moment.
func (b *batch) summary() Summary {
	s := Summary{Name: b.name, Created: tube.Never}
	sealed := 0
	for _, p := range b.parts {
		s.Pending, s.Parked, s.Done, s.Gone = s.Pending+p.Pending, s.Parked+p.Parked, s.Done+p.Done, s.Gone+p.Gone
		s.AfterHeld, s.AfterFailed = s.AfterHeld+p.AfterHeld, s.AfterFailed+p.AfterFailed
		s.Created, s.TTL = min(s.Created, p.Created), max(s.TTL, p.TTL)
		s.After = append(s.After, p.After...)
		if p.Sealed {
			sealed++
		}
	}
	if s.TTL == 0 {
		s.TTL = tube.DefaultBatchTTL
	}
	s.After = s.After[:min(len(s.After), tube.MaxAfter)]
	s.Age = max(s.Created.Until(b.now)*-1, 0)
	s.Sealed = sealed == b.of
	s.State = b.state(&s)
	return s
}

// state returns the word for what is known.
func (b *batch) state(s *Summary) string {
	v := b.verdict(s)
	if v == tube.BatchOpen && s.Sealed {
		for _, p := range b.parts {
			if p.Verdict == tube.BatchCyclic {
				return p.Verdict.String()
			}
		}
		return "sealed"
	}
	return v.String()
}

// verdict returns what follows from the sums, apart from tube.BatchCyclic.
func (b *batch) verdict(s *Summary) tube.Verdict {
	switch {
	case s.Sealed && s.Pending == 0 && s.Parked+s.Gone == 0:
		return tube.BatchDone
	case s.Sealed && s.Pending == 0:
		return tube.BatchFailed
	case !s.Sealed && b.now >= s.Created.Plus(s.TTL):
		return tube.BatchUnsealed
	case s.Gone > 0:
		return tube.BatchFailing
	}
	return tube.BatchOpen
}

// ended reports whether a verdict follows from there being no pending member in any part.
func ended(v tube.Verdict) bool { return v == tube.BatchDone || v == tube.BatchFailed }

// unchanged reports whether no member has become pending since an earlier reading. Then there was a moment between the
// two at which all parts were as they were read the first time, but for members that have ended.
func (b *batch) unchanged(before *batch) bool {
	if len(b.parts) != len(before.parts) {
		return false
	}
	for i, p := range b.parts {
		if p.Part != before.parts[i].Part || p.Stamp != before.parts[i].Stamp {
			return false
		}
	}
	return true
}

// settlements returns what is to be told the parts, to those that are not due before the others: whoever
// is told last is due again if this server dies before that. A part that is idle is only told to forget the batch.
func (b *batch) settlements(v tube.Verdict) (others, due []*tube.Settlement) {
	s := b.summary()
	next, forget := b.next(v, &s)
	for _, p := range b.parts {
		settle := p.Settlement(v, next)
		settle.Forget = forget
		switch {
		case p.Due <= b.now:
			due = append(due, settle)
		case forget || !b.idle(p) && p.Verdict != v || p.AfterHeld > 0 && v != tube.BatchOpen || p.AfterFailed > 0 && v == tube.BatchDone:
			others = append(others, settle)
		}
	}
	return others, due
}

// idle reports whether a part is not due, never had a member, and has no after-job. If it gets one, it is due.
func (b *batch) idle(p *tube.JobBatch) bool {
	return p.Due > b.now && p.Pending+p.Parked+p.Done+p.Gone+p.AfterHeld+p.AfterFailed == 0
}

// next returns when the batch is to be examined again though nothing has happened, and whether it is to
// be forgotten.
func (b *batch) next(v tube.Verdict, s *Summary) (at tube.Instant, forget bool) {
	switch {
	case ended(v), v == tube.BatchUnsealed:
		since, ttl := tube.Instant(0), s.TTL
		if s.Total() == 0 {
			ttl = min(ttl, unusedTTL)
		}
		for _, p := range b.parts {
			if b.idle(p) {
				continue
			}
			if p.Verdict != v {
				return b.now.Plus(ttl), false
			}
			since = max(since, p.Since)
		}
		if at = since.Plus(ttl); at > b.now {
			return at, false
		}
		return b.now.Plus(ttl), s.jobs() == 0
	case s.Sealed:
		return tube.Never, false
	}
	return s.Created.Plus(s.TTL), false
}
