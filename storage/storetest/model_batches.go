package storetest

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Batches in the model, which has one record of each, the sum of those of all parts. What it does not know, how the
// after-jobs are divided among the parts, and the stamps, it learns from parts, which the history has read.

// modelBatch is a batch, without what follows from the jobs.
type modelBatch struct {
	ttl        time.Duration
	created    time.Duration
	sealed     bool
	done, gone uint64
	verdicts   map[int]tube.Verdict // by part

	due     time.Duration
	claimed time.Duration // until then nobody else gets it
	unsure  bool          // the claim can have ended earlier
}

// heldDue is after all due times.
const heldDue = tooLate + 1

// openBatch returns the record of a batch.
func (m *Model) openBatch(name string, ttl time.Duration) (b *modelBatch, made bool) {
	b = m.batches[name]
	if made = b == nil; made {
		b = &modelBatch{created: m.now, verdicts: make(map[int]tube.Verdict), due: heldDue}
		m.batches[name] = b
	}
	if !made && (ttl == 0 || b.ttl != 0) {
		return b, made
	}
	b.ttl = ttl
	if !b.sealed && b.due > m.now {
		b.due, b.claimed = b.created+cmp.Or(b.ttl, tube.DefaultBatchTTL), 0
	}
	return b, made
}

// joinBatches makes a job what the tags of its put say.
func (m *Model) joinBatches(j *modelJob, tags *tube.Tags) {
	ttl := tags.BatchTTL
	if tags.Batch != "" {
		m.openBatch(tags.Batch, ttl)
		j.metadata.Batch, ttl = tags.Batch, 0
	}
	if tags.After == "" {
		return
	}
	if b, made := m.openBatch(tags.After, ttl); made || b.verdict() != tube.BatchOpen || b.sealed && m.countMembers(tags.After, false) == 0 || b.gone > 0 {
		m.batchDue(b)
	}
	j.metadata.After, j.metadata.AfterAll = tags.After, tags.AfterAll
	j.state, j.due, j.order, j.held, j.waitsSince = tube.Delayed, heldDue, 0, true, m.now
}

// verdict returns the last verdict of a store of one part.
func (b *modelBatch) verdict() tube.Verdict { return b.verdicts[0] }

// batchDue makes b due now.
func (m *Model) batchDue(b *modelBatch) { b.due, b.claimed = min(b.due, m.now), 0 }

// leaveAfter makes a job that runs after a batch an ordinary one, whose time begins.
func (m *Model) leaveAfter(j *modelJob) {
	if j.metadata.After != "" && j.expires != 0 {
		j.expires, j.expiresOrder = j.expires+m.now-j.waitsSince, m.step
	}
	j.held, j.metadata.After, j.metadata.AfterAll = false, "", false
}

// done removes a job that is done, or was deleted by a command about it alone.
func (m *Model) done(j *modelJob, how tube.How, result string) {
	m.end(j, how, "", result)
	if b := m.batches[j.metadata.Batch]; b != nil {
		b.done++
	}
	j.metadata.Batch = ""
	m.takeOff(j)
}

// isParked reports whether a member is parked.
func (j *modelJob) isParked() bool {
	return j.state == tube.Buried || j.isDeadLetter()
}

// countMembers counts the members of a batch that are parked, or those that are not.
func (m *Model) countMembers(batch string, parked bool) (n uint64) {
	for _, j := range m.jobs {
		if j.metadata.Batch == batch && j.isParked() == parked {
			n++
		}
	}
	return n
}

// afterJobs returns the jobs that wait for a batch, or are parked because of it, by their ids.
func (m *Model) afterJobs(batch string) (jobs []*modelJob) {
	for _, j := range m.jobs {
		if j.metadata.After == batch {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *modelJob) int { return cmp.Compare(a.id, b.id) })
	return jobs
}

// record returns what GetRecord answers, the sum of the parts.
func (m *Model) record(name string) *tube.JobBatch {
	b := m.batches[name]
	r := &tube.JobBatch{
		Name: name, TTL: b.ttl, Sealed: b.sealed, Done: b.done, Gone: b.gone,
		Pending: m.countMembers(name, false), Parked: m.countMembers(name, true),
	}
	for _, j := range m.afterJobs(name) {
		if j.held {
			r.AfterHeld++
		} else {
			r.AfterFailed++
		}
		r.After = append(r.After, *m.jobStats(j))
	}
	return r
}

// batchCounts are the numbers of a batch whose changes make it due.
type batchCounts struct {
	pending, parked, done, gone uint64
	sealed                      bool
}

// onlyName is the Part of a record of which only the name is compared.
const onlyName = -1

// sameBatches compares the sums of records, or the names.
func sameBatches(got, want []*tube.JobBatch) bool {
	if len(want) > 0 && want[0].Part == onlyName {
		return slices.Equal(batchesOf(got), batchesOf(want))
	}
	return reflect.DeepEqual(sumBatches(got), sumBatches(want))
}

func (m *Model) batchCounts() map[string]batchCounts {
	all := make(map[string]batchCounts)
	for name, b := range m.batches {
		all[name] = batchCounts{m.countMembers(name, false), m.countMembers(name, true), b.done, b.gone, b.sealed}
	}
	return all
}

// dueSince makes the batches due that are so because of what has changed since these counts.
func (m *Model) dueSince(before map[string]batchCounts) {
	for name, now := range m.batchCounts() {
		was := before[name]
		if now.gone > 0 && was.gone == 0 || now.sealed && !was.sealed || now != was && now.sealed && now.pending == 0 {
			m.batchDue(m.batches[name])
		}
	}
}

// aboutBatches carries out an operation about batches.
func (m *Model) aboutBatches(op *storage.Op) {
	a, name := &op.Answer, ""
	if op.Args != nil {
		name = op.Args.Name
	}
	b := m.batches[name]
	switch op.Kind {
	case storage.SealBatch:
		b, _ = m.openBatch(name, 0)
		b.sealed = true
	case storage.GetRecord:
		if a.NotFound = b == nil; b != nil {
			a.Result = &storage.Result{Records: []tube.NamedRecord{m.record(name)}}
		}
	case storage.CancelBatch:
		if a.NotFound = b == nil; b != nil {
			b.sealed = true
			a.Count = m.cancel(name)
		}
	case storage.DueRecords:
		a.Result = &storage.Result{Records: m.claimBatches()}
	case storage.SettleBatch:
		m.settle(op)
	}
}

// cancel removes the members of a batch that are not reserved.
func (m *Model) cancel(name string) (n int) {
	for _, j := range slices.Clone(m.jobs) {
		if j.metadata.Batch == name && j.state != tube.Reserved {
			m.remove(j)
			n++
		}
	}
	return n
}

// claimBatches returns the records that are due, in no particular order, and claims them. If it is not known whether the
// claim of one has ended, the store decides; if it is not known when batches are due, it decides all.
func (m *Model) claimBatches() (due []tube.NamedRecord) {
	for name, b := range m.batches {
		given := slices.ContainsFunc(m.hintBatches, func(r *tube.JobBatch) bool { return r.Name == name })
		if !m.knowsDue && given || m.knowsDue && b.due <= m.now && (b.claimed <= m.now || b.unsure && given) {
			b.claimed, b.unsure = m.now+tube.ClaimTime, m.runsByItself
			due = append(due, &tube.JobBatch{Name: name, Part: onlyName})
		}
	}
	return due
}

// settle carries out a SettleBatch.
func (m *Model) settle(op *storage.Op) {
	s, name := op.Args.Settle, op.Args.Name
	part := m.part(name, s.Part)
	b := m.batches[name]
	if op.Answer.NotFound = part == nil || b == nil; op.Answer.NotFound {
		return
	}
	live := part.Pending + part.Parked + part.AfterHeld + part.AfterFailed
	if op.Answer.NotFound = part.Stamp != s.Stamp || s.Forget && live > 0; op.Answer.NotFound {
		m.batchDue(b)
		return
	}
	if s.Forget { // the history does that for one part after the other
		if m.parts = slices.DeleteFunc(slices.Clone(m.parts), func(p *tube.JobBatch) bool { return p == part }); len(m.parts) == 0 {
			delete(m.batches, name)
		}
		return
	}
	reopens := b.verdicts[s.Part] == tube.BatchUnsealed && s.Verdict != tube.BatchUnsealed
	var jobs []*modelJob
	for _, j := range m.afterJobs(name) {
		fate := s.Verdict.Fate(j.metadata.AfterAll)
		here := slices.ContainsFunc(part.After, func(a tube.JobStats) bool { return a.ID == j.id })
		if here && (fate == tube.FateRun || fate != tube.FateHeld && j.held || fate == tube.FateHeld && reopens && !j.held) {
			jobs = append(jobs, j)
		}
	}
	op.Answer.Count = min(len(jobs), int(op.MaxJobs))
	for _, j := range jobs[:op.Answer.Count] {
		m.carryOut(j, s.Verdict.Fate(j.metadata.AfterAll))
	}
	if !reopens || op.Answer.Count == len(jobs) {
		b.verdicts[s.Part] = s.Verdict
	}
	if b.due, b.claimed = m.now+min(max(s.Due.Until(m.clock), 0), tooLate), 0; op.Answer.Count < len(jobs) || part.Overtakes(s) {
		m.batchDue(b)
	}
}

// part returns the record of a part, as the history has read it; nil if it had none.
func (m *Model) part(name string, part int) *tube.JobBatch {
	for _, r := range m.parts {
		if r.Name == name && r.Part == part {
			return r
		}
	}
	return nil
}

// carryOut does with a job that runs after a batch what a verdict says.
func (m *Model) carryOut(j *modelJob, fate tube.Fate) {
	if fate == tube.FateRun {
		m.leaveAfter(j)
		j.metadata.Parked = tube.NotParked
		m.wait(j, time.Duration(j.delay)*time.Second)
		return
	}
	if fate == tube.FateHeld { // again
		j.metadata.Parked = tube.NotParked
		j.state, j.due, j.order, j.held = tube.Delayed, heldDue, 0, true
		return
	}
	m.bury(j)
	j.held, j.metadata.Parked = false, tube.ParkedBatchFailed
	if fate == tube.FateParkUnsealed {
		j.metadata.Parked = tube.ParkedBatchUnsealed
	}
}

// batchesOf returns the names in records, sorted, each once.
func batchesOf(records []*tube.JobBatch) (names []string) {
	for _, r := range records {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sumBatches adds up the records of each batch, and keeps the order of the names. Of the stamps and times nothing is kept
// but TTL, and of the after-jobs what identifies them.
func sumBatches(parts []*tube.JobBatch) (sums []*tube.JobBatch) {
	for _, p := range parts {
		if n := len(sums); n == 0 || sums[n-1].Name != p.Name {
			sums = append(sums, &tube.JobBatch{Name: p.Name, Sealed: true})
		}
		s := sums[len(sums)-1]
		s.TTL, s.Sealed = max(s.TTL, p.TTL), s.Sealed && p.Sealed
		s.Pending, s.Parked, s.Done, s.Gone = s.Pending+p.Pending, s.Parked+p.Parked, s.Done+p.Done, s.Gone+p.Gone
		s.AfterHeld, s.AfterFailed = s.AfterHeld+p.AfterHeld, s.AfterFailed+p.AfterFailed
		for _, j := range p.After {
			f := tube.Metadata{}
			if j.Metadata != nil {
				f = *j.Metadata
			}
			s.After = append(s.After, tube.JobStats{
				ID: j.ID, Tube: j.Tube, State: j.State, Held: j.Held,
				Metadata: &tube.Metadata{Batch: f.Batch, After: f.After, AfterAll: f.AfterAll, Parked: f.Parked},
			})
		}
		slices.SortFunc(s.After, func(a, b tube.JobStats) int { return cmp.Compare(a.ID, b.ID) })
	}
	return sums
}
