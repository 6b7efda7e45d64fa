package tube

// schedules are the schedules of a Machine. Nobody changes a record: it is replaced. Records have wall times.
type schedules struct{ named[*scheduled] }

// scheduled is a schedule, whichever record it has.
type scheduled struct {
	record *Schedule
	place  dueSlot
}

func (s *scheduled) key() string    { return s.record.Name }
func (s *scheduled) slot() *dueSlot { return &s.place }

func (s *scheduled) listed(*base) NamedRecord {
	record := *s.record
	record.Body = nil
	return &record
}

func (s *scheduled) handedOut(*base) NamedRecord { return s.record }

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
		all.of.journal.RecordSet(Schedules, record.Name, &record)
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

// DeleteSchedule removes a record. It returns false if there is none of that name.
func (all *schedules) DeleteSchedule(name string) bool {
	s := all.list.remove(name)
	if s == nil {
		return false
	}
	all.dues.unqueue(s)
	all.rearm()
	if all.of.journal != nil {
		all.of.journal.RecordSet(Schedules, name, nil)
	}
	return true
}

// RestoreSchedule brings back the record of a schedule, of which there must be none yet.
func (all *schedules) RestoreSchedule(s *Schedule) { all.place(nil, s) }
