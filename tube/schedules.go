package tube

// schedules are the records of a Machine. Nobody changes a record: it is replaced. Records have wall times, and
// so have dues.
type schedules struct {
	list sorted[string, *scheduled]
	dues dues[*scheduled]
}

// scheduled is a schedule, whichever record it has.
type scheduled struct {
	record *Schedule
	place  dueSlot
}

func (s *scheduled) key() string    { return s.record.Name }
func (s *scheduled) slot() *dueSlot { return &s.place }

// isNext reports whether s may be written, see SetSchedule, and returns what it replaces, nil if
// that is nothing.
func (m *Machine) isNext(s *Schedule) (old *scheduled, ok bool) {
	if old = m.schedules.list.find(s.Name); old == nil {
		return nil, s.Version == 1
	}
	return old, s.Version == old.record.Version+1
}

// SetSchedule writes the record of a schedule, which must not be changed after that. Its Results are
// those of the record that it replaces. It returns false, and does nothing, unless its Version is 1
// more than that of this record; 1 if there is none.
func (m *Machine) SetSchedule(s *Schedule) bool {
	old, ok := m.isNext(s)
	if ok {
		m.writeSchedule(old, s, old.results())
	}
	return ok
}

// PutScheduled is SetSchedule, and PutTagged before it, the result of which is counted in the record:
// the record is written whatever that result is. A key is taken only while its job exists. tags must have an Occurrence. If it returns false,
// nothing was done. If nothing was put, the Buffer of the job still belongs to the caller.
func (m *Machine) PutScheduled(now Instant, p NewJob, tags *Tags, s *Schedule) (a PutAnswer, ok bool) {
	old, ok := m.isNext(s)
	if !ok {
		return a, false
	}
	a = m.putTagged(now, p, tags, false)
	results := old.results()
	results.Count(inMilliseconds(m.Wall(now)), tags.Occurrence.Nominal, a)
	m.writeSchedule(old, s, results) // after the put: the journal can split the changes before a put, and these two must stay together
	return a, true
}

// results returns the results of s, which can be nil.
func (s *scheduled) results() (r ScheduleResults) {
	if s != nil {
		r = s.record.Results
	}
	return r
}

// writeSchedule replaces the record of old, which is nil if there is none, by a copy of s with these
// results.
func (m *Machine) writeSchedule(old *scheduled, s *Schedule, results ScheduleResults) {
	record := *s
	record.Results = results
	m.placeSchedule(old, &record)
	if m.journal != nil {
		m.journal.ScheduleSet(record.Name, &record)
	}
}

// placeSchedule makes s the record of old, which is nil if there is none.
func (m *Machine) placeSchedule(old *scheduled, s *Schedule) {
	if old == nil {
		old = &scheduled{record: s}
		m.schedules.list.insert(old)
	}
	old.record, old.place.due = s, s.Due
	m.schedules.dues.queue(old)
	m.rearmSchedules()
}

// Schedule returns the record of a schedule, nil if there is none of that name. It must not be changed.
func (m *Machine) Schedule(name string) *Schedule {
	if s := m.schedules.list.find(name); s != nil {
		return s.record
	}
	return nil
}

// ListSchedules returns the first count records whose names come after a cursor, without their
// bodies, in the order of their names, and the cursor of the next ones; "" if there are none. count
// can be up to MaxListed.
func (m *Machine) ListSchedules(cursor string, count int) (page []*Schedule, next string) {
	count = min(count, MaxListed)
	for s := range m.schedules.list.after(cursor) {
		if len(page) == count {
			return page, page[count-1].Name
		}
		record := *s.record
		record.Body = nil
		page = append(page, &record)
	}
	return page, ""
}

// DeleteSchedule removes a record. It returns false if there is none of that name.
func (m *Machine) DeleteSchedule(name string) bool {
	s := m.schedules.list.remove(name)
	if s == nil {
		return false
	}
	m.schedules.dues.unqueue(s)
	m.rearmSchedules()
	if m.journal != nil {
		m.journal.ScheduleSet(name, nil)
	}
	return true
}

// DueSchedules returns up to count records that are due, at most MaxListed, the earliest first, and
// claims them: for ClaimTime they are not returned again. They must not be changed.
func (m *Machine) DueSchedules(now Instant, count int) (due []*Schedule) {
	for _, s := range m.schedules.dues.claim(m.Wall(now), count) {
		due = append(due, s.record)
	}
	m.rearmSchedules()
	return due
}

// rearmSchedules sets the alarm of the schedules.
func (m *Machine) rearmSchedules() {
	m.alarms.set(&m.schedules.dues.alarm, m.fromWall(m.schedules.dues.next()))
}

// TakeSchedulesDue returns whether a Tick has found that a schedule is due, since the last call.
func (m *Machine) TakeSchedulesDue() bool { return m.schedules.dues.take() }

// RestoreSchedule brings back the record of a schedule, of which there must be none yet.
func (m *Machine) RestoreSchedule(s *Schedule) { m.placeSchedule(nil, s) }
