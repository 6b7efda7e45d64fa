package tube

import (
	"fmt"
	"time"
)

// A delayed job is cold if the engine has it on disk only: the Machine has forgotten it, and only counts it. The engine decides
// which jobs are cold, and no rule depends on that: before anything is done with a job that may be cold, or with the first of
// the delayed jobs of a tube, the engine admits what may be concerned.

// ColdPlace is where a cold job is in the order of a tube's delayed jobs.
type ColdPlace struct {
	Due Instant // wall time
	ID  uint64
}

// Before orders cold jobs.
func (p ColdPlace) Before(q ColdPlace) bool { return p.Due < q.Due || p.Due == q.Due && p.ID < q.ID }

// NoColdPlace comes after every other.
var NoColdPlace = ColdPlace{Due: Never, ID: 1<<64 - 1}

// cold is what a Machine knows of the cold jobs of a tube.
type cold struct {
	tube  *Tube
	jobs  int
	from  ColdPlace // no cold job comes before it
	alarm alarm     // set to Machine.coldLead before it is due, but not before again
	again Instant   // when it may be reported that jobs should be admitted
}

// coldAgain is after how long it is reported again that cold jobs should be admitted.
const coldAgain = Instant(100 * time.Millisecond)

// SetColdLead says how long before they are due cold jobs should be admitted. It must be called before there are any.
func (m *queues) SetColdLead(d time.Duration) { m.coldLead = Instant(d) }

// fire reports that cold jobs of the tube should be admitted.
func (c *cold) fire(m *Machine, now Instant) {
	m.coldDue = append(m.coldDue, c.tube.name)
	c.again = now + coldAgain
	m.rearmCold(c)
}

// rearmCold sets the alarm of the cold jobs of a tube.
func (m *queues) rearmCold(c *cold) {
	at := Never
	if c.jobs > 0 && c.from.Due != Never {
		at = max(m.fromWall(c.from.Due)-m.coldLead, c.again)
	}
	m.alarms.set(&c.alarm, at)
}

// ColdDue returns the tubes whose next cold jobs should be admitted because they are due soon, see SetColdLead. Each is returned again
// until they are.
func (m *queues) ColdDue() []string {
	due := m.coldDue
	m.coldDue = nil
	return due
}

// ColdJobs returns how many jobs are cold.
func (m *queues) ColdJobs() int { return m.coldJobs }

// Cold returns how many jobs of a tube are cold, and where: none comes before first.
func (m *queues) Cold(tube string) (jobs int, first ColdPlace) {
	if t := m.tubes[tube]; t != nil && t.cold.jobs > 0 {
		return t.cold.jobs, t.cold.from
	}
	return 0, NoColdPlace
}

// RestoreCold says that a tube has that many cold jobs with bodies of that many bytes, none of which comes before first.
func (m *queues) RestoreCold(now Instant, tube string, jobs int, bytes uint64, first ColdPlace) {
	t := m.open(tube)
	t.cold.jobs, t.cold.from, t.cold.again = jobs, first, now
	m.coldJobs += jobs
	t.jobs += jobs
	t.bytes += bytes
	m.totals.Delayed += uint64(jobs)
	m.rearmCold(&t.cold)
}

// ColdFrom says that no cold job of a tube comes before first: those before it were admitted.
func (m *queues) ColdFrom(tube string, first ColdPlace) {
	if t := m.tubes[tube]; t != nil && t.cold.from.Before(first) {
		t.cold.from = first
		m.rearmCold(&t.cold)
	}
}

// coldFirst reports whether a cold job of t may come before j, which is delayed.
func (m *queues) coldFirst(t *Tube, j *Job) bool {
	return t.cold.jobs > 0 && !m.coldPlace(j).Before(t.cold.from)
}

// coldPlace returns where j would be if it was cold.
func (m *queues) coldPlace(j *Job) ColdPlace { return ColdPlace{m.Wall(Instant(j.rank)), j.ID} }

// CanBeCold reports whether j is delayed, and nothing but its queue would miss it if it was cold: it has no key, no group, no
// batch and no checkpoint, and does not expire before it is due.
func (m *jobs) CanBeCold(j *Job) bool {
	if j.state != Delayed || j.batch != 0 || m.handles.list[j.tube].lane != nil {
		return false
	}
	if !j.hasMetadata {
		return true
	}
	f := m.metadata.of(j)
	return m.metadata.key(j) == "" && f.Checkpoint.Size == 0 && (f.Expires == 0 || int64(f.Expires) >= j.rank)
}

// Evict makes job id cold. It returns false, and does nothing, if there is no such job, or CanBeCold is false. The engine has its record
// and its body.
func (m *queues) Evict(id uint64) bool {
	j := m.Find(id)
	if j == nil || !m.CanBeCold(j) {
		return false
	}
	t, at := m.tubeOf(j), m.coldPlace(j)
	if t.cold.jobs++; t.cold.jobs == 1 || at.Before(t.cold.from) {
		t.cold.from = at
		m.rearmCold(&t.cold)
	}
	m.coldJobs++
	t.delayed.remove(&m.slab, j)
	if j.hasMetadata {
		m.expiries.remove(id)
		delete(m.metadata.byJob, j.self)
	}
	m.byID.delete(id)
	m.slab.release(j)
	m.rearmTube(t)
	return true
}

// Admit brings back a cold job from its record. The body is kept, not copied; nil means that it is stored elsewhere. An error means
// that the record is not that of a cold job.
func (m *queues) Admit(now Instant, r Record, body []byte) error {
	t := m.tubes[r.Tube]
	if t == nil || t.cold.jobs == 0 || r.State != Delayed {
		return fmt.Errorf("job %d is %v in tube %q, which has no such cold job", r.ID, r.State, r.Tube)
	}
	r.Created, r.Rank = m.fromWall(r.Created), int64(m.fromWall(Instant(r.Rank)))
	if r.Metadata != nil {
		r.Metadata.Expires = m.fromWall(r.Metadata.Expires)
	}
	j, err := m.restoreJob(now, &r, body)
	if err != nil {
		return err
	}
	m.enqueue(j, Delayed, r.Rank)
	j.place |= byWallTime
	t.cold.jobs--
	m.coldJobs--
	t.jobs--
	t.bytes -= uint64(r.Size)
	m.totals.Delayed--
	if t.cold.jobs == 0 {
		m.rearmCold(&t.cold)
	}
	return nil
}

// PlaceOfCursor returns the place behind which a page of delayed jobs begins, see NewListing; false if the cursor is invalid.
func (b *base) PlaceOfCursor(cursor string) (p ColdPlace, valid bool) {
	if cursor == "" {
		return p, true
	}
	at, valid := parseCursor(cursor)
	return ColdPlace{b.Wall(Instant(at.rank)), at.id}, valid
}
