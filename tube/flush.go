package tube

// Flush is the removal of many jobs of a tube, in parts.
type Flush struct {
	tube  string
	group string // "": all of them
	state State  // Gone: all states but Reserved
	last  uint64 // the largest id when it began
	scan  scan
	found int
}

// NewGroupFlush returns a Flush of the jobs of a group that are now ready, delayed or buried.
func (m *Machine) NewGroupFlush(tube, group string) *Flush {
	f := m.NewFlush(tube, Gone)
	f.group = group
	return f
}

// NewFlush returns a Flush of the jobs of a tube that are now in state s; if s is Gone, of those
// that are ready, delayed or buried.
func (m *Machine) NewFlush(tube string, s State) *Flush {
	return &Flush{tube: tube, state: s, last: m.lastID, scan: m.beginScan()}
}

// Removed returns how many jobs were removed so far.
func (f *Flush) Removed() int { return f.found }

// FlushSome does a part of a flush. It removes up to limit jobs, or examines a number of jobs
// that takes as long. It returns how much of limit it has used, and whether the flush has
// ended. Jobs put after the flush began stay. Every job that was there before, and could be
// flushed all the time, is removed.
func (m *Machine) FlushSome(now Instant, f *Flush, limit int) (work int, ended bool) {
	t := m.tubes[f.tube]
	if t == nil || t.in(f.state) == 0 || f.group != "" && m.groupIn(t, f.group) == nil {
		return 0, true
	}
	before := f.found
	if f.scan.next == 0 && f.state != Reserved && f.group == "" && t.in(f.state) <= limit {
		m.flushAll(now, t, f)
		return f.found - before, true
	}
	slots := f.scan.next
	ended = f.scan.pass(&m.slab, limit*slotsPerMove, func(j *Job) bool {
		if m.tubeOf(j) != t || !f.wants(j) || f.group != "" && m.groupOf(j) != f.group {
			return true
		}
		f.found++
		m.Remove(now, j)
		return f.found-before < limit && m.tubes[f.tube] == t
	})
	work = f.found - before + int(f.scan.next-slots)/slotsPerMove
	return work, ended || m.tubes[f.tube] != t
}

// FlushJob does the part of a flush that is about one job, which can be gone. It returns whether it was removed.
func (m *Machine) FlushJob(now Instant, f *Flush, id uint64) bool {
	j := m.Find(id)
	if j == nil || m.tubeOf(j).name != f.tube || !f.wants(j) {
		return false
	}
	f.found++
	m.Remove(now, j)
	return true
}

// flushAll removes all jobs that the flush covers, queue by queue.
func (m *Machine) flushAll(now Instant, t *Tube, f *Flush) {
	for _, s := range []State{Ready, Delayed, Buried} {
		if f.state != Gone && f.state != s {
			continue
		}
		for left := t.in(s) - t.coldIn(s); left > 0; left-- {
			f.found++
			m.Remove(now, m.anyIn(t, s))
		}
	}
}

// wants reports whether the flush covers j, which is in its tube.
func (f *Flush) wants(j *Job) bool {
	return j.ID <= f.last && (j.state == f.state || f.state == Gone && j.state != Reserved)
}
