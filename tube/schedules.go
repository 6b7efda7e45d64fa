package tube

// schedules are the records of a Machine. Nobody changes a record: it is replaced. Records have wall times, and
// so have dues.
type schedules struct {
	of   *base
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

func newSchedules(b *base) schedules { return schedules{of: b, dues: newDues[*scheduled]()} }

// isNext reports whether s may be written, see SetSchedule, and returns what it replaces, nil if
// that is nothing.
func (all *schedules) isNext(s *Schedule) (old *scheduled, ok bool) {
	if old = all.list.find(s.Name); old == nil {
		return nil, s.Version == 1
	}
	return old, s.Version == old.record.Version+1
}

// SetSchedule writes the record of a schedule, which must not be changed after that. Its Results are
// those of the record that it replaces. It returns false, and does nothing, unless its Version is 1
// more than that of this record; 1 if there is none.
func (all *schedules) SetSchedule(s *Schedule) bool {
	old, ok := all.isNext(s)
	if ok {
		all.write(old, s, old.results())
	}
	return ok
}

// results returns the results of s, which can be nil.
func (s *scheduled) results() (r ScheduleResults) {
	if s != nil {
		r = s.record.Results
	}
	return r
}

// write replaces the record of old, which is nil if there is none, by a copy of s with these
// results.
func (all *schedules) write(old *scheduled, s *Schedule, results ScheduleResults) {
	record := *s
	record.Results = results
	all.place(old, &record)
	if all.of.journal != nil {
		all.of.journal.ScheduleSet(record.Name, &record)
	}
}

// place makes s the record of old, which is nil if there is none.
func (all *schedules) place(old *scheduled, s *Schedule) {
	if old == nil {
		old = &scheduled{record: s}
		all.list.insert(old)
	}
	old.record, old.place.due = s, s.Due
	all.dues.queue(old)
	all.rearm()
}

// Schedule returns the record of a schedule, nil if there is none of that name. It must not be changed.
func (all *schedules) Schedule(name string) *Schedule {
	if s := all.list.find(name); s != nil {
		return s.record
	}
	return nil
}

// ListSchedules returns the first count records whose names come after a cursor, without their
// bodies, in the order of their names, and the cursor of the next ones; "" if there are none. count
// can be up to MaxListed.
func (all *schedules) ListSchedules(cursor string, count int) (page []*Schedule, next string) {
	count = min(count, MaxListed)
	for s := range all.list.after(cursor) {
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
func (all *schedules) DeleteSchedule(name string) bool {
	s := all.list.remove(name)
	if s == nil {
		return false
	}
	all.dues.unqueue(s)
	all.rearm()
	if all.of.journal != nil {
		all.of.journal.ScheduleSet(name, nil)
	}
	return true
}

// DueSchedules returns up to count records that are due, at most MaxListed, the earliest first, and
// claims them: for ClaimTime they are not returned again. They must not be changed.
func (all *schedules) DueSchedules(now Instant, count int) (due []*Schedule) {
	for _, s := range all.dues.claim(all.of.Wall(now), count) {
		due = append(due, s.record)
	}
	all.rearm()
	return due
}

// rearm sets the alarm of the schedules.
func (all *schedules) rearm() {
	all.of.alarms.set(&all.dues.alarm, all.of.fromWall(all.dues.next()))
}

// TakeSchedulesDue returns whether a Tick has found that a schedule is due, since the last call.
func (all *schedules) TakeSchedulesDue() bool { return all.dues.take() }

// RestoreSchedule brings back the record of a schedule, of which there must be none yet.
func (all *schedules) RestoreSchedule(s *Schedule) { all.place(nil, s) }
