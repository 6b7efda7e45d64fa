package tube

import (
	"fmt"
	"slices"
	"time"
)

// A delayed or a ready job is cold if the engine has it on disk only: the Machine has forgotten it, and only counts it. The engine
// decides which jobs are cold, and no rule depends on that: before anything is done with a job that may be cold, or with the first of
// the jobs of a queue, the engine admits what may be concerned.

// ColdPlace is where a cold job is in the order of the delayed or the ready jobs of a tube.
type ColdPlace struct {
	Rank int64 // of a delayed job, when it is due, as wall time; of a ready one, its priority
	ID   uint64
}

// Before orders the cold jobs of a queue.
func (p ColdPlace) Before(q ColdPlace) bool {
	return p.Rank < q.Rank || p.Rank == q.Rank && p.ID < q.ID
}

// NoColdPlace comes after every other.
var NoColdPlace = ColdPlace{Rank: int64(Never), ID: 1<<64 - 1}

// ColdQueue is a queue of a tube that has cold jobs: its delayed or its ready ones.
type ColdQueue struct {
	Tube  string
	State State // Delayed or Ready
}

// ColdStates are the states in which jobs can be cold.
var ColdStates = [...]State{Ready, Delayed}

// cold is what a Machine knows of the cold jobs of a queue.
type cold struct {
	tube  *Tube
	state State
	jobs  int
	from  ColdPlace // no cold job comes before it
	alarm alarm     // of delayed jobs: set to Machine.coldLead before the first is due; of ready ones: while few are in memory
	again Instant   // the alarm is not set to an earlier time
}

// coldAgain is after how long it is reported again that cold jobs should be admitted.
const coldAgain = Instant(100 * time.Millisecond)

// SetCold says how long before they are due cold delayed jobs should be admitted; and cold ready jobs of a tube, when fewer than fewReady
// of its ready jobs are in memory. It must be called before there are any.
func (m *queues) SetCold(lead time.Duration, fewReady int) {
	m.coldLead, m.fewReady = Instant(lead), fewReady
}

// cold returns what is known of the cold jobs of t in a state; nil for a state in which none can be cold.
func (t *Tube) cold(s State) *cold {
	switch s {
	case Ready:
		return &t.coldReady
	case Delayed:
		return &t.coldDelayed
	}
	return nil
}

// coldIn returns how many jobs of t in a state are cold.
func (t *Tube) coldIn(s State) int {
	if c := t.cold(s); c != nil {
		return c.jobs
	}
	return 0
}

// fire reports that cold jobs of the queue should be admitted.
func (c *cold) fire(m *Machine, now Instant) {
	m.coldDue = append(m.coldDue, ColdQueue{c.tube.name, c.state})
	c.again = now + coldAgain
	m.rearmCold(c)
}

// rearmCold sets the alarm of the cold jobs of a queue.
func (m *queues) rearmCold(c *cold) {
	at := Never
	switch {
	case c.jobs == 0 || c.from == NoColdPlace:
	case c.state == Delayed:
		at = max(m.fromWall(Instant(c.from.Rank))-m.coldLead, c.again)
	case c.tube.ready.len() < m.fewReady:
		at = c.again
	}
	m.alarms.set(&c.alarm, at)
}

// ColdDue returns the queues whose next cold jobs should be admitted, see SetCold. Each is returned again until they are.
func (m *queues) ColdDue() []ColdQueue {
	due := m.coldDue
	m.coldDue = nil
	return due
}

// ColdJobs returns how many jobs are cold.
func (m *queues) ColdJobs() int { return m.coldJobs }

// ReadyInMemory returns how many ready jobs are not cold.
func (m *queues) ReadyInMemory() int { return int(m.totals.Ready) - m.coldReady }

// Cold returns how many jobs of a queue are cold, and where: none comes before first.
func (m *queues) Cold(of ColdQueue) (jobs int, first ColdPlace) {
	if t := m.tubes[of.Tube]; t != nil && t.cold(of.State).jobs > 0 {
		return t.cold(of.State).jobs, t.cold(of.State).from
	}
	return 0, NoColdPlace
}

// ColdFirst returns one of the tubes that are not paused and whose next ready job may be a cold one; "" if there is none.
func (m *queues) ColdFirst(tubes []string) string {
	for t := range m.tubesColdReady {
		head := t.ready.head(&m.slab)
		if t.paused() || t.coldReady.from == NoColdPlace || head != nil && !m.coldFirst(t, head) {
			continue
		}
		if slices.Contains(tubes, t.name) {
			return t.name
		}
	}
	return ""
}

// RestoreCold says that a queue has that many cold jobs with bodies of that many bytes, none of which comes before first. urgent of them are
// ready and urgent.
func (m *queues) RestoreCold(now Instant, of ColdQueue, jobs int, bytes uint64, urgent int, first ColdPlace) {
	t := m.open(of.Tube)
	c := t.cold(of.State)
	c.from, c.again = first, now
	m.countCold(c, jobs)
	t.jobs += jobs
	t.bytes += bytes
	if of.State == Delayed {
		m.totals.Delayed += uint64(jobs)
	} else {
		t.urgent += urgent
		m.totals.Ready += uint64(jobs)
		m.totals.Urgent += uint64(urgent)
	}
	m.rearmCold(c)
}

// countCold adds to the number of cold jobs of a queue.
func (m *queues) countCold(c *cold, by int) {
	c.jobs += by
	m.coldJobs += by
	if c.state == Delayed {
		return
	}
	m.coldReady += by
	if c.jobs > 0 {
		m.tubesColdReady[c.tube] = struct{}{}
	} else {
		delete(m.tubesColdReady, c.tube)
	}
}

// ColdFrom says that no cold job of a queue comes before first: those before it were admitted.
func (m *queues) ColdFrom(of ColdQueue, first ColdPlace) {
	if t := m.tubes[of.Tube]; t != nil && t.cold(of.State).from.Before(first) {
		t.cold(of.State).from = first
		m.rearmCold(t.cold(of.State))
	}
}

// coldFirst reports whether a cold job of t may come before j, which is delayed or ready.
func (m *queues) coldFirst(t *Tube, j *Job) bool {
	c := t.cold(j.state)
	return c.jobs > 0 && !m.coldPlace(j).Before(c.from)
}

// coldPlace returns where j, which is delayed or ready, would be if it was cold.
func (m *queues) coldPlace(j *Job) ColdPlace {
	if j.state == Delayed {
		return ColdPlace{int64(m.Wall(Instant(j.rank))), j.ID}
	}
	return ColdPlace{j.rank, j.ID}
}

// CanBeCold reports whether j is delayed or ready, and nothing but its queue would miss it if it was cold: it has no key, no group, no
// batch and no checkpoint. It does not expire, or not before it is due if it is delayed. A ready job is in a tube without groups, and was
// not reserved when the last process ended.
func (m *jobs) CanBeCold(j *Job) bool {
	if j.batch != 0 || j.state != Delayed && j.state != Ready {
		return false
	}
	h := m.handles.list[j.tube]
	if h.lane != nil || j.state == Ready && h.tube.lanes != nil {
		return false
	}
	if _, held := m.heldAtEnd[j.ID]; held {
		return false
	}
	if !j.hasMetadata {
		return true
	}
	f := m.metadata.of(j)
	return m.metadata.key(j) == "" && f.Checkpoint.Size == 0 && (f.Expires == 0 || j.state == Delayed && int64(f.Expires) >= j.rank)
}

// Evict makes job id cold. It returns false, and does nothing, if there is no such job, or CanBeCold is false. The engine has its record
// and its body.
func (m *queues) Evict(id uint64) bool {
	j := m.Find(id)
	if j == nil || !m.CanBeCold(j) {
		return false
	}
	t, at := m.tubeOf(j), m.coldPlace(j)
	c := t.cold(j.state)
	if c.jobs == 0 || at.Before(c.from) {
		c.from = at
	}
	m.countCold(c, 1)
	t.queue(j.state).remove(&m.slab, j)
	if j.hasMetadata {
		m.expiries.remove(id)
		delete(m.metadata.byJob, j.self)
	}
	if j.state == Ready {
		m.updateTakeable(t)
	} else {
		m.rearmTube(t)
	}
	m.byID.delete(id)
	m.slab.release(j)
	m.rearmCold(c)
	return true
}

// Admit brings back a cold job from its record. The body is kept, not copied; nil means that it is stored elsewhere. An error means
// that the record is not that of a cold job.
func (m *queues) Admit(now Instant, r Record, body []byte) error {
	t := m.tubes[r.Tube]
	if t == nil || t.coldIn(r.State) == 0 {
		return fmt.Errorf("job %d is %v in tube %q, which has no such cold job", r.ID, r.State, r.Tube)
	}
	r.Created = m.fromWall(r.Created)
	if r.Metadata != nil {
		r.Metadata.Expires = m.fromWall(r.Metadata.Expires)
	}
	j, err := m.restoreJob(now, &r, body)
	if err != nil {
		return err
	}
	t.jobs--
	t.bytes -= uint64(r.Size)
	if r.State == Delayed {
		m.enqueue(j, Delayed, int64(m.fromWall(Instant(r.Rank))))
		j.place |= byWallTime
		m.totals.Delayed--
	} else {
		j.dueSince(j.created.After(j.delay))
		m.enqueue(j, Ready, int64(j.pri))
		m.countReady(j, -1)
	}
	m.countCold(t.cold(r.State), -1)
	m.rearmCold(t.cold(r.State))
	return nil
}

// PlaceOfCursor returns the place behind which a page of delayed or ready jobs begins, see NewListing; false if the cursor is invalid.
func (b *base) PlaceOfCursor(s State, cursor string) (p ColdPlace, valid bool) {
	if cursor == "" {
		return p, true
	}
	at, valid := parseCursor(cursor)
	if s == Delayed {
		at.rank = int64(b.Wall(Instant(at.rank)))
	}
	return ColdPlace{at.rank, at.id}, valid
}

// Cooling finds the ready jobs that an engine can make cold because there are very many, in parts.
type Cooling struct {
	Behind map[string]ColdPlace // for each tube that has many, the place from which on they are found
	scan   scan
}

// NewCooling returns a Cooling of about half of the ready jobs in memory of a tube; with tube "", of all tubes that have more than atLeast
// of them. It returns nil if there are none.
func (m *queues) NewCooling(tube string, atLeast int) *Cooling {
	c := &Cooling{Behind: make(map[string]ColdPlace), scan: m.beginScan()}
	for _, t := range m.order {
		if t.lanes == nil && t.ready.len() > atLeast && (tube == "" || t.name == tube) {
			c.Behind[t.name] = t.ready.middle(&m.slab)
		}
	}
	if len(c.Behind) == 0 {
		return nil
	}
	return c
}

// CoolSome returns the ids of some jobs of a cooling. limit is as with FlushSome. ended says that there are no more.
func (m *queues) CoolSome(c *Cooling, limit int) (ids []uint64, ended bool) {
	ended = c.scan.pass(&m.slab, limit*slotsPerMove, func(j *Job) bool {
		if j.state == Ready && m.CanBeCold(j) {
			if behind, has := c.Behind[m.tubeOf(j).name]; has && !m.coldPlace(j).Before(behind) {
				ids = append(ids, j.ID)
			}
		}
		return true
	})
	return ids, ended
}

// sampleSize is about how many jobs of a queue are examined to find its middle.
const sampleSize = 1000

// middle returns a place that is about in the middle of a queue of ready jobs, which is not empty.
func (q *queue) middle(s *slab) ColdPlace {
	var sample []position
	step := q.len()/sampleSize + 1
	for n := 0; n < int(q.ring.to-q.ring.from); n += step {
		if self := *q.ring.at(q.ring.from + uint32(n)); self != 0 {
			sample = append(sample, positionOf(s.at(self)))
		}
	}
	for n := 0; n < len(q.tree); n += step {
		sample = append(sample, positionOf(s.at(q.tree[n])))
	}
	slices.SortFunc(sample, func(a, b position) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	p := sample[len(sample)/2]
	return ColdPlace{p.rank, p.id}
}
