package tube

import "strconv"

// What becomes of the jobs that run after a batch, and of its members when it is cancelled.

// Batch returns the record of a batch, with the first after-jobs; nil if there is none of that name.
func (m *Machine) Batch(now Instant, name string) *JobBatch {
	b := m.batches.find(name)
	if b == nil {
		return nil
	}
	r := b.copyFor(&m.base)
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

// SettleBatch carries out a verdict with up to limit after-jobs. It returns how many have changed, and whether there
// are more. It returns false, and does nothing, if there is no record, its Stamp is another one, or it cannot be forgotten:
// it is due now.
func (m *Machine) SettleBatch(now Instant, name string, s *Settlement, limit int) (changed int, more, ok bool) {
	b := m.batches.find(name)
	if b == nil {
		return 0, false, false
	}
	defer m.batches.report()
	r := &b.record
	if r.Stamp != s.Stamp || s.Forget && r.Pending+r.Parked+r.AfterHeld+r.AfterFailed > 0 {
		m.batches.dueNow(now, b)
		return 0, false, false
	}
	if s.Forget {
		m.batches.forget(b)
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
		m.batches.changed(b)
	}
	if more || r.Overtakes(s) {
		m.batches.setDue(b, min(r.Due, now))
	} else {
		m.batches.setDue(b, m.fromWall(s.Due))
	}
	return changed, more, true
}

// nextFated returns the first job that a verdict about b changes, and how; nil if there is none.
func (m *Machine) nextFated(b *batched, v Verdict) (*Job, Fate) {
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
		b := m.batches.find(m.metadata.of(j).After)
		m.removeAfter(j)
		if fate == FateWait {
			m.metadata.change(j).Parked = NotParked
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
func (m *Machine) letRun(now Instant, j *Job) {
	if j.state == Buried {
		m.metadata.change(j).Parked = NotParked
	}
	if j.delay == 0 {
		j.dueSince(now)
	}
	m.enter(now, j, Delayed, nil)
}

// Cancellation is the removal of the members of a batch, in parts.
type Cancellation struct {
	name  string
	next  uint64 // the id of the next member
	found int
}

// CancelBatch seals a batch, and returns a Cancellation of its members; nil if there is no such batch.
func (m *Machine) CancelBatch(now Instant, name string) *Cancellation {
	b := m.batches.find(name)
	if b == nil {
		return nil
	}
	m.batches.seal(now, b)
	m.batches.report()
	return &Cancellation{name: name}
}

// Removed returns how many members were removed so far.
func (c *Cancellation) Removed() int { return c.found }

// CancelSome does a part of a cancellation: it removes up to limit members that are not reserved, or examines a number of ids that
// takes as long. It returns whether the cancellation has ended.
func (m *Machine) CancelSome(now Instant, c *Cancellation, limit int) (ended bool) {
	b := m.batches.find(c.name)
	if b == nil {
		return true
	}
	before := c.found
	c.next = m.visit(b, c.next, limit*slotsPerMove, func(j *Job) bool {
		if j.state == Reserved {
			return true
		}
		c.found++
		m.reportRemoved(m.remove(now, j, ending{how: Deleted}))
		return c.found-before < limit
	})
	m.batches.report()
	return c.next == 0
}

// ListMembers returns up to count members of a batch that exist, at most MaxListed, starting at a cursor, and the cursor of the
// next ones; "" if there are no more. It examines no more than limit ids: a page can be shorter, or empty.
func (m *Machine) ListMembers(now Instant, name, cursor string, count, limit int) (jobs []JobStats, next string) {
	b, count := m.batches.find(name), min(count, MaxListed)
	from, err := uint64(0), error(nil)
	if cursor != "" {
		from, err = strconv.ParseUint(cursor, 10, 64)
	}
	if b == nil || err != nil || count <= 0 {
		return nil, ""
	}
	from = m.visit(b, from, limit, func(j *Job) bool {
		s := m.jobStats(now, j)
		s.Size = int(j.size)
		jobs = append(jobs, s)
		return len(jobs) < count
	})
	if from != 0 {
		next = strconv.FormatUint(from, 10)
	}
	return jobs, next
}
