package storetest

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Schedules in the model.

// modelSchedule is a record, with the ids that the model gave.
type modelSchedule struct {
	record  tube.Schedule // At of its Results is 1 if it was ever put
	due     time.Duration
	claimed time.Duration // until then nobody else gets it; 0: it is not claimed
	unsure  bool          // the claim can have ended earlier
}

// aboutRecords carries out an operation on named records.
func (m *Model) aboutRecords(op *storage.Op) {
	switch {
	case op.Kind == storage.ListRecords:
		op.Answer.Result = m.listRecords(op)
	case op.Records == tube.JobBatches:
		m.aboutBatches(op)
	default:
		m.aboutSchedules(op)
	}
}

// listRecords answers with a page of records. A cursor means: behind the page of that kind that was listed last.
func (m *Model) listRecords(op *storage.Op) *storage.Result {
	r, names := &storage.Result{}, slices.Sorted(maps.Keys(m.schedules))
	if op.Records == tube.JobBatches {
		names = slices.Sorted(maps.Keys(m.batches))
	}
	for _, name := range names {
		if op.Args.Cursor != "" && name <= m.listedRecords[op.Records] {
			continue
		}
		if len(r.Records) == int(op.MaxJobs) {
			r.Cursor = "more"
			break
		}
		r.Records, m.listedRecords[op.Records] = append(r.Records, m.listedRecord(op.Records, name)), name
	}
	return r
}

// listedRecord returns a record as it is listed: without its body, or the jobs after it.
func (m *Model) listedRecord(kind tube.RecordKind, name string) tube.NamedRecord {
	if kind == tube.JobBatches {
		b := m.record(name)
		b.After = nil
		return b
	}
	s := m.schedules[name].record
	s.Body = nil
	return &s
}

// aboutSchedules carries out an operation on records of schedules.
func (m *Model) aboutSchedules(op *storage.Op) {
	a := &op.Answer
	switch op.Kind {
	case storage.SetSchedule:
		if a.NotFound = !m.isNext(op.Args.Schedule); !a.NotFound {
			m.setSchedule(op.Args.Schedule)
		}
	case storage.PutScheduled:
		m.putScheduled(op)
	case storage.GetRecord:
		s, found := m.schedules[op.Args.Name]
		if a.NotFound = !found; found {
			a.Result = &storage.Result{Records: []tube.NamedRecord{&s.record}}
		}
	case storage.DeleteSchedule:
		_, found := m.schedules[op.Args.Name]
		a.NotFound = !found
		delete(m.schedules, op.Args.Name)
	case storage.DueRecords:
		a.Result = new(storage.Result)
		for _, s := range m.claimSchedules(int(op.MaxJobs)) {
			a.Result.Records = append(a.Result.Records, s)
		}
	}
}

// isNext reports whether s can be written: it replaces the version that there is, 0 for none.
func (m *Model) isNext(s *tube.Schedule) bool {
	return s.Version == m.schedules[s.Name].record.Version+1
}

// tooLate is how long nothing waits.
const tooLate = time.Duration(math.MaxInt64 / 2)

// setSchedule writes a record, which ends the claim of the one before.
func (m *Model) setSchedule(s *tube.Schedule) {
	next := modelSchedule{record: *s, due: m.now + min(max(s.Due.Until(m.clock), 0), tooLate)}
	next.record.Results = m.schedules[s.Name].record.Results
	m.schedules[s.Name] = next
}

// putScheduled carries out a PutScheduled.
func (m *Model) putScheduled(op *storage.Op) {
	a, name := &op.Answer, op.Args.Schedule.Name
	if a.NotFound = !m.isNext(op.Args.Schedule); a.NotFound {
		return
	}
	m.putTagged(op)
	if a.Err != nil {
		a.Err, a.Outcome = nil, tube.PutRefused
	}
	m.setSchedule(op.Args.Schedule)
	s := m.schedules[name]
	r := &s.record.Results
	switch a.Outcome {
	case tube.PutNew:
		r.Put++
	case tube.PutRefused, tube.PutSealed:
		r.Refused++
	default:
		r.Overlapped++
	}
	r.At, r.Nominal, r.Result, r.ID = 1, op.Args.Tags.Occurrence.Nominal, a.Outcome, a.ID
	m.schedules[name] = s
}

// wasStarted reports whether a job was ever reserved, since it was last sent back by a replay.
func (j *modelJob) wasStarted() bool {
	return j.counters[tube.Reserves] > 0 || j.metadata.DeliveriesBefore != 0
}

// claimSchedules returns up to n records that are due, and claims them. If it is not known whether
// the claim of one has ended, the store decides.
func (m *Model) claimSchedules(n int) (due []*tube.Schedule) {
	for name, s := range m.schedules {
		given := s.unsure && slices.ContainsFunc(m.hintDue, func(s *tube.Schedule) bool { return s.Name == name })
		if s.due <= m.now && (s.claimed <= m.now || given) {
			due = append(due, &s.record)
		}
	}
	slices.SortFunc(due, func(a, b *tube.Schedule) int { return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Name, b.Name)) })
	due = due[:min(n, len(due))]
	for _, s := range due {
		m.schedules[s.Name] = modelSchedule{record: *s, due: m.schedules[s.Name].due, claimed: m.now + tube.ClaimTime, unsure: m.runsByItself}
	}
	return due
}

// doubtClaims makes all claims unsure: a store that is opened need not know them.
func (m *Model) doubtClaims() {
	for name, s := range m.schedules {
		s.unsure = true
		m.schedules[name] = s
	}
	for _, b := range m.batches {
		b.unsure = true
	}
}

// sameSchedule compares records. Of when the last put was, only whether there was one is compared.
func sameSchedule(got, want *tube.Schedule) bool {
	return bytes.Equal(got.Body, want.Body) && got.Text() == want.Text() && got.Name == want.Name && got.Version == want.Version &&
		sameResults(got.Results, want.Results)
}

func sameResults(got, want tube.ScheduleResults) bool {
	got.At, want.At = min(got.At, 1), min(want.At, 1)
	return got == want
}
