package tube

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// schedules are the records of a Machine. Nobody changes a record: it is replaced.
type schedules struct {
	list   scheduleList
	due    dueHeap // those with a time, except the claimed ones
	claims []claim // in the order in which they end
	alarm  alarm

	reported   bool    // TakeSchedulesDue has something to report
	reportedAt Instant // what was due by then was reported
}

// scheduled is a schedule, whichever record it has.
type scheduled struct {
	record  *Schedule
	pos     int     // in schedules.due; -1: it is not there
	claimed Instant // when its claim ends; 0: it has none
}

// claim is void if its schedule has another claim by now, or none.
type claim struct {
	of    *scheduled
	until Instant
}

// reportAgain is after how long it is reported again that a schedule is due, if nobody has claimed it.
const reportAgain = Instant(time.Second)

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
// the record is written whatever that result is. tags must have an Occurrence. If it returns false,
// nothing was done. If nothing was put, the Buffer of the job still belongs to the caller.
func (m *Machine) PutScheduled(now Instant, p NewJob, tags *Tags, s *Schedule) (a PutAnswer, ok bool) {
	old, ok := m.isNext(s)
	if !ok {
		return a, false
	}
	a = m.PutTagged(now, p, tags)
	results := old.results()
	results.Count(now-now%Instant(time.Millisecond), tags.Occurrence.Nominal, a)
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
	all := &m.schedules
	if old == nil {
		old = &scheduled{record: s, pos: -1}
		all.list.insert(old)
	}
	old.record, old.claimed = s, 0
	all.queue(old)
	m.rearmSchedules()
}

// queue puts s, which is not claimed, where it belongs in due. It is reported once it is due, also if
// others that were due before were reported already.
func (all *schedules) queue(s *scheduled) {
	switch due := s.record.Due; {
	case due == Never:
		all.unqueue(s)
		return
	case s.pos < 0:
		heap.Push(&all.due, dueSchedule{due, s})
	default:
		all.due[s.pos].at = due
		heap.Fix(&all.due, s.pos)
	}
	all.reportedAt = min(all.reportedAt, s.record.Due-1)
}

// unqueue takes s out of due, if it is there.
func (all *schedules) unqueue(s *scheduled) {
	if s.pos >= 0 {
		heap.Remove(&all.due, s.pos)
	}
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
	s.claimed = 0
	m.schedules.unqueue(s)
	m.rearmSchedules()
	if m.journal != nil {
		m.journal.ScheduleSet(name, nil)
	}
	return true
}

// DueSchedules returns up to count records that are due, at most MaxListed, the earliest first, and
// claims them: for ClaimTime they are not returned again. They must not be changed.
func (m *Machine) DueSchedules(now Instant, count int) (due []*Schedule) {
	all := &m.schedules
	for n := 0; n < MaxListed && all.endClaim(now); n++ { // if there are more, Ticks end them
	}
	for range min(count, MaxListed) {
		if len(all.due) == 0 || all.due[0].at > now {
			break
		}
		s := all.due[0].schedule
		all.unqueue(s)
		s.claimed = now + Instant(ClaimTime)
		all.claims = append(all.claims, claim{s, s.claimed})
		due = append(due, s.record)
	}
	m.rearmSchedules()
	return due
}

// endClaim ends the claim that ends first, if that is over by now. It returns whether it was.
func (all *schedules) endClaim(now Instant) bool {
	if len(all.claims) == 0 || all.claims[0].until > now {
		return false
	}
	c := all.claims[0]
	all.claims[0] = claim{}
	if all.claims = all.claims[1:]; len(all.claims) == 0 {
		all.claims = nil
	}
	if c.of.claimed == c.until {
		c.of.claimed = 0
		all.queue(c.of)
	}
	return true
}

// fireSchedules ends a claim or, if none has ended, reports that a schedule is due.
func (m *Machine) fireSchedules(now Instant) {
	if all := &m.schedules; !all.endClaim(now) {
		all.reported, all.reportedAt = true, now
	}
	m.rearmSchedules()
}

// rearmSchedules sets the alarm of the schedules.
func (m *Machine) rearmSchedules() {
	all, at := &m.schedules, Never
	if len(all.due) > 0 {
		if at = all.due[0].at; at <= all.reportedAt {
			at = all.reportedAt + reportAgain
		}
	}
	if len(all.claims) > 0 {
		at = min(at, all.claims[0].until)
	}
	m.alarms.set(&all.alarm, at)
}

// TakeSchedulesDue returns whether a Tick has found that a schedule is due, since the last call.
func (m *Machine) TakeSchedulesDue() bool {
	due := m.schedules.reported
	m.schedules.reported = false
	return due
}

// RestoreSchedule brings back the record of a schedule, of which there must be none yet.
func (m *Machine) RestoreSchedule(s *Schedule) { m.placeSchedule(nil, s) }

// dueHeap is a container/heap of schedules, the one that is due first at its head.
type dueHeap []dueSchedule

// dueSchedule is a schedule and when its record is due.
type dueSchedule struct {
	at       Instant
	schedule *scheduled
}

func (h dueHeap) Len() int { return len(h) }

// Less orders schedules that are due at the same time by their names.
func (h dueHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].schedule.record.Name < h[j].schedule.record.Name
}

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].schedule.pos, h[j].schedule.pos = i, j
}

// Push is for container/heap only.
func (h *dueHeap) Push(x any) {
	x.(dueSchedule).schedule.pos = len(*h)
	*h = append(*h, x.(dueSchedule))
}

// Pop is for container/heap only.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = dueSchedule{}
	*h = (*h)[:last]
	x.schedule.pos = -1
	return x
}

// scheduleList has the schedules in the order of their names. It is stored in parts, none of which is
// empty, so that an insertion moves few of them.
type scheduleList struct{ parts [][]*scheduled }

// maxSchedulePart is how many schedules a part can have.
const maxSchedulePart = 256

// place returns where a schedule is, or where it would be inserted.
func (l *scheduleList) place(name string) (part, at int, found bool) {
	part, _ = slices.BinarySearchFunc(l.parts, name, func(p []*scheduled, name string) int {
		return cmp.Compare(p[len(p)-1].record.Name, name)
	})
	if part == len(l.parts) {
		if part == 0 {
			return 0, 0, false
		}
		return part - 1, len(l.parts[part-1]), false
	}
	at, found = slices.BinarySearchFunc(l.parts[part], name, func(s *scheduled, name string) int {
		return cmp.Compare(s.record.Name, name)
	})
	return part, at, found
}

// find returns a schedule, nil if there is none of that name.
func (l *scheduleList) find(name string) *scheduled {
	part, at, found := l.place(name)
	if !found {
		return nil
	}
	return l.parts[part][at]
}

// insert adds a schedule of a new name.
func (l *scheduleList) insert(s *scheduled) {
	part, at, _ := l.place(s.record.Name)
	if len(l.parts) == 0 {
		l.parts = append(l.parts, nil)
	}
	p := slices.Insert(l.parts[part], at, s)
	l.parts[part] = p
	if half := len(p) / 2; len(p) > maxSchedulePart {
		l.parts = slices.Insert(l.parts, part+1, slices.Clone(p[half:]))
		clear(p[half:])
		l.parts[part] = p[:half]
	}
}

// remove removes a schedule and returns it; nil if there is none of that name.
func (l *scheduleList) remove(name string) *scheduled {
	part, at, found := l.place(name)
	if !found {
		return nil
	}
	s := l.parts[part][at]
	l.parts[part] = slices.Delete(l.parts[part], at, at+1)
	if len(l.parts[part]) == 0 {
		l.parts = slices.Delete(l.parts, part, part+1)
	}
	return s
}

// after returns the schedules whose names come after a cursor, in their order.
func (l *scheduleList) after(cursor string) func(yield func(*scheduled) bool) {
	return func(yield func(*scheduled) bool) {
		part, at, found := l.place(cursor)
		if found {
			at++
		}
		for ; part < len(l.parts); part, at = part+1, 0 {
			for _, s := range l.parts[part][at:] {
				if !yield(s) {
					return
				}
			}
		}
	}
}
