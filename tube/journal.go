package tube

import "fmt"

// Journal is told of every change that is to survive a restart, so that no
// caller has to decide what to write. Its methods are called in the middle of
// a change and must not call the Machine, but may read the job.
type Journal interface {
	// Put tells of a new job.
	Put(r Record, body []byte)

	// Changed tells what a job has become.
	Changed(r Record)

	// Deleted tells that a job is gone, whose body had that many bytes.
	Deleted(id uint64, size uint32)

	// Paused tells until when a tube is paused, having been asked to for that
	// many seconds; an until of 0 says that it is not any more.
	Paused(tube string, seconds uint32, until Instant)
}

// SetJournal has j told from now on; nil ends that.
func (m *Machine) SetJournal(j Journal) { m.journal = j }

// Record is what of a job survives a restart: everything but a reservation.
type Record struct {
	ID              uint64
	Tube            string
	State           State // Ready, Delayed or Buried
	Pri, Delay, TTR uint32
	Size            uint32 // of the body, in bytes
	Created         Instant
	Rank            int64 // delayed: when it is due, an Instant; buried: the number of the burial
	Counters        Counters
}

// record returns what is to survive of j.
func (m *Machine) record(j *Job) Record {
	r := Record{
		ID: j.ID, Tube: m.tubeOf(j).name, State: j.state,
		Pri: j.pri, Delay: j.delay, TTR: j.ttr, Size: j.size,
		Created: j.created, Counters: j.counters,
	}
	switch j.state {
	case Reserved:
		r.State = Ready
	case Delayed, Buried:
		r.Rank = j.rank
	}
	return r
}

// lasting tells whether a move changes what survives a restart. Those that do
// not only begin, prolong or end a reservation, or do what the next start
// would do by itself: let a delay be over.
func (a *Arrow) lasting() bool { return a.Counts != NoCounter }

// Record returns what is to survive of a job, and its body if that is kept
// here.
func (m *Machine) Record(id uint64) (r Record, body []byte, found bool) {
	j := m.Find(id)
	if j == nil {
		return r, nil, false
	}
	return m.record(j), m.Body(j), true
}

// Restore brings back a job from its record, in any order. Its body is kept
// unless it is nil, for then it is somebody else's to keep.
func (m *Machine) Restore(now Instant, r Record, body []byte) error {
	if r.ID == 0 || m.jobs.get(r.ID) != 0 {
		return fmt.Errorf("job %d is there twice, or cannot be", r.ID)
	}
	t := m.open(r.Tube)
	j := m.slab.alloc()
	j.ID, j.tube, j.created = r.ID, t.handle, r.Created
	j.pri, j.delay, j.ttr, j.size, j.counters = r.Pri, r.Delay, max(r.TTR, MinTTR), r.Size, r.Counters
	if len(body) > 0 {
		m.slab.keep(j, body)
	}
	m.jobs.set(j.ID, j.self)
	m.lastID = max(m.lastID, j.ID)
	t.jobs++
	switch {
	case r.State == Buried:
		m.burials = max(m.burials, r.Rank)
		m.place(j, Buried, r.Rank)
	case r.State == Delayed && Instant(r.Rank) > now:
		m.place(j, Delayed, r.Rank)
	case r.State == Delayed || r.State == Ready:
		m.place(j, Ready, int64(j.pri))
	default:
		return fmt.Errorf("job %d is recorded as %v", r.ID, r.State)
	}
	return nil
}

// RestorePause brings back the pause of a tube. If there is no job in the tube
// nothing is left of it, for nobody attends a tube after a restart.
func (m *Machine) RestorePause(now Instant, name string, seconds uint32, until Instant) bool {
	t := m.tubes[name]
	if t == nil || until <= now {
		return false
	}
	t.pauseSeconds, t.pauseUntil = seconds, until
	m.noteTakeable(t)
	m.rearm(t)
	return true
}

// LastID returns the largest id that was ever given out.
func (m *Machine) LastID() uint64 { return m.lastID }

// SkipTo has ids up to id count as given out.
func (m *Machine) SkipTo(id uint64) { m.lastID = max(m.lastID, id) }
