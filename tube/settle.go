package tube

import "time"

// The records of batches, and what becomes of the jobs that run after them.

// batchChanged records that the journal lacks the record of b, until journalBatches.
func (m *members) batchChanged(b *batched) {
	if !b.dirty {
		b.dirty = true
		m.batches.dirty = append(m.batches.dirty, b)
	}
}

// journalBatches reports the records that have changed to the journal. It is called after the changes of jobs that have
// caused that: the journal can split the changes before a put, and these must stay together.
func (m *members) journalBatches() {
	if len(m.batches.dirty) == 0 {
		return
	}
	for i, b := range m.batches.dirty {
		m.batches.dirty[i] = nil
		if b.dirty && m.journal != nil {
			m.journal.BatchSet(b.record.Name, m.copyBatch(b))
		}
		b.dirty = false
	}
	m.batches.dirty = m.batches.dirty[:0]
}

// setBatchDue sets when b is due. Its claim ends.
func (m *members) setBatchDue(b *batched, at Instant) {
	b.record.Due, b.place.due = at, at
	m.batches.dues.queue(b)
	m.rearmBatches()
}

// batchDueNow makes b due now, if it is not due yet or claimed.
func (m *members) batchDueNow(now Instant, b *batched) {
	if b.record.Due > now || b.place.claimed != 0 {
		m.setBatchDue(b, min(b.record.Due, now))
	}
}

// dueIfEnded makes b due now if no member is pending and none will be, as far as is known here.
func (m *members) dueIfEnded(now Instant, b *batched) {
	if b.record.Sealed && b.record.Pending == 0 {
		m.batchDueNow(now, b)
	}
}

// rearmBatches sets the alarm of the batches.
func (m *members) rearmBatches() { m.alarms.set(&m.batches.dues.alarm, m.batches.dues.next()) }

// TakeBatchesDue returns whether a Tick has found that a batch is due, since the last call.
func (m *members) TakeBatchesDue() bool { return m.batches.dues.take() }

// DueBatches returns up to count records that are due, at most MaxListed, the earliest first, and
// claims them: for ClaimTime they are not returned again, unless they become due anew.
func (m *members) DueBatches(now Instant, count int) (due []*JobBatch) {
	for _, b := range m.batches.dues.claim(now, count) {
		due = append(due, m.copyBatch(b))
	}
	m.rearmBatches()
	return due
}

// copyBatch returns the record of b for others: its instants are wall times.
func (m *members) copyBatch(b *batched) *JobBatch {
	r := b.record
	r.Created, r.Since, r.Due = m.Wall(r.Created), m.Wall(r.Since), m.Wall(r.Due)
	return &r
}

// SealBatch says that a batch, which need not exist, gets no more members.
func (m *members) SealBatch(now Instant, name string) {
	b, _ := m.openBatch(now, name)
	m.seal(now, b)
	m.journalBatches()
}

func (m *members) seal(now Instant, b *batched) {
	if !b.record.Sealed {
		b.record.Sealed = true
		b.record.Stamp++
		m.batchChanged(b)
		m.batchDueNow(now, b)
	}
}

// Batch returns the record of a batch, with the first after-jobs; nil if there is none of that name.
func (m *members) Batch(now Instant, name string) *JobBatch {
	b := m.findBatch(name)
	if b == nil {
		return nil
	}
	r := m.copyBatch(b)
	var cursor uint64
	for len(r.After) < MaxAfter {
		var first uint64
		for _, l := range b.lists() {
			for id := range l.after(cursor) {
				if first == 0 || uint64(id) < first {
					first = uint64(id)
				}
				break
			}
		}
		if first == 0 {
			break
		}
		s := m.jobStats(now, m.Find(first))
		s.Size = int(m.Find(first).size)
		r.After, cursor = append(r.After, s), first
	}
	return r
}

// lists returns the lists of jobs that run after b.
func (b *batched) lists() [4]*sorted[uint64, jobID] {
	return [4]*sorted[uint64, jobID]{&b.held[0], &b.held[1], &b.parked[0], &b.parked[1]}
}

// ListBatches returns the records of the first count batches whose names come after a cursor, in their order, and
// the cursor of the next ones; "" if there are none. count can be up to MaxListed.
func (m *members) ListBatches(cursor string, count int) (page []*JobBatch, next string) {
	count = min(count, MaxListed)
	for b := range m.batches.list.after(cursor) {
		if len(page) == count {
			if count > 0 {
				next = page[count-1].Name
			}
			return page, next
		}
		page = append(page, m.copyBatch(b))
	}
	return page, ""
}

// SettleBatch carries out a verdict with up to limit after-jobs. It returns how many have changed, and whether there
// are more. It returns false, and does nothing, if there is no record, its Stamp is another one, or it cannot be forgotten:
// it is due now.
func (m *Machine) SettleBatch(now Instant, name string, s *Settlement, limit int) (changed int, more, ok bool) {
	b := m.findBatch(name)
	if b == nil {
		return 0, false, false
	}
	defer m.journalBatches()
	r := &b.record
	if r.Stamp != s.Stamp || s.Forget && r.Pending+r.Parked+r.AfterHeld+r.AfterFailed > 0 {
		m.batchDueNow(now, b)
		return 0, false, false
	}
	if s.Forget {
		m.forgetBatch(b)
		return 0, false, true
	}
	for ; changed < limit; changed++ {
		j, fate := m.nextFated(b, s.Verdict)
		if j == nil {
			break
		}
		m.carryOut(now, j, fate)
	}
	j, _ := m.nextFated(b, s.Verdict)
	more = j != nil
	if r.Since == 0 || r.Verdict != s.Verdict && !(more && r.Reopens(s.Verdict)) {
		r.Verdict, r.Since = s.Verdict, inMilliseconds(now)
		m.batchChanged(b)
	}
	if more || r.Overtakes(s) {
		m.setBatchDue(b, min(r.Due, now))
	} else {
		m.setBatchDue(b, m.fromWall(s.Due))
	}
	return changed, more, true
}

// nextFated returns the first job that a verdict about b changes, and how; nil if there is none.
func (m *members) nextFated(b *batched, v Verdict) (*Job, Fate) {
	first, fate := jobID(0), FateHeld
	consider := func(l *sorted[uint64, jobID], is Fate) {
		if id, found := l.first(); found && (first == 0 || id < first) {
			first, fate = id, is
		}
	}
	for all := range 2 {
		switch is := v.Fate(all == 1); {
		case is == FateRun:
			consider(&b.held[all], is)
			consider(&b.parked[all], is)
		case is != FateHeld:
			consider(&b.held[all], is)
		case b.record.Reopens(v):
			consider(&b.parked[all], FateWait)
		}
	}
	if first == 0 {
		return nil, fate
	}
	return m.Find(uint64(first)), fate
}

// carryOut does with j, which runs after a batch, what a verdict says.
func (m *Machine) carryOut(now Instant, j *Job, fate Fate) {
	m.dequeue(j)
	if fate == FateRun {
		m.clearAfter(now, j)
		m.letRun(now, j)
	} else {
		b := m.findBatch(m.metadataOf(j).After)
		m.removeAfter(j)
		if fate == FateWait {
			m.changeMetadata(j).Parked = NotParked
			m.enqueue(j, Delayed, int64(Never))
		} else {
			m.park(j, map[Fate]Parked{FateParkFailed: ParkedBatchFailed, FateParkUnsealed: ParkedBatchUnsealed}[fate], "")
		}
		m.addAfter(j, b)
	}
	m.recount(now, j)
	m.journalChanged(j)
}

// letRun makes j, which was held or parked and is in no queue, due: now, or after its delay.
func (m *queues) letRun(now Instant, j *Job) {
	if j.state == Buried {
		m.changeMetadata(j).Parked = NotParked
	}
	if j.delay == 0 {
		j.dueSince(now)
	}
	m.enter(now, j, Delayed, nil)
}

// forgetBatch removes the record of b, which has neither members nor after-jobs.
func (m *members) forgetBatch(b *batched) {
	name := b.record.Name
	m.batches.list.remove(name)
	m.batches.dues.unqueue(b)
	m.batches.recent, b.dirty = nil, false
	m.rearmBatches()
	if m.journal != nil {
		m.journal.BatchSet(name, nil)
	}
}

// Cancellation is the removal of the members of a batch, in parts.
type Cancellation struct {
	name  string
	next  uint64 // the id of the next member
	found int
}

// CancelBatch seals a batch, and returns a Cancellation of its members; nil if there is no such batch.
func (m *members) CancelBatch(now Instant, name string) *Cancellation {
	b := m.findBatch(name)
	if b == nil {
		return nil
	}
	m.seal(now, b)
	m.journalBatches()
	return &Cancellation{name: name}
}

// Removed returns how many members were removed so far.
func (c *Cancellation) Removed() int { return c.found }

// CancelSome does a part of a cancellation: it removes up to limit members that are not reserved, or examines a number of ids that
// takes as long. It returns whether the cancellation has ended.
func (m *Machine) CancelSome(now Instant, c *Cancellation, limit int) (ended bool) {
	b := m.findBatch(c.name)
	if b == nil {
		return true
	}
	before := c.found
	c.next = m.visit(b, c.next, limit*slotsPerMove, func(j *Job) bool {
		if j.state == Reserved {
			return true
		}
		c.found++
		m.journalRemoved(m.remove(now, j))
		return c.found-before < limit
	})
	m.journalBatches()
	return c.next == 0
}

// RestoreBatch brings back what survives of a batch, of which there must be none yet. It comes before the jobs. The batch is due: what
// was to be done about it need not survive.
func (m *members) RestoreBatch(r JobBatch) {
	b := &batched{record: JobBatch{
		Name: r.Name, Created: r.Created, TTL: r.TTL, Sealed: r.Sealed, Done: r.Done, Gone: r.Gone, Verdict: r.Verdict, Since: r.Since,
	}}
	if r.Sealed {
		b.record.Stamp = 1
	}
	m.batches.list.insert(b)
	m.batches.dues.queue(b)
	m.rearmBatches()
}

// inMilliseconds returns the last whole millisecond.
func inMilliseconds(t Instant) Instant { return t - t%Instant(time.Millisecond) }
