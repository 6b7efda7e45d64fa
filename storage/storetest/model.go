package storetest

import (
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Model is the rules once more, written to be believed rather than to be fast: a list of
// jobs that every operation goes through. It shares nothing with tube.Machine but names. Its
// clock only moves when it is told to.
type Model struct {
	now      time.Duration // since the model began
	jobs     []*modelJob
	lastID   uint64
	sequence int // grows with every burial and every delay
	timeouts uint64
	total    uint64
	tubes    []*modelTube
}

type modelJob struct {
	id              uint64
	tube            *modelTube
	state           tube.State
	pri, delay, ttr uint32
	holder          tube.Holder
	due             time.Duration // of delayed and reserved jobs
	order           int           // of delayed and buried jobs
	counters        tube.Counters
	body            string
}

type modelTube struct {
	name                   string
	using, watching        int
	total, deletes, pauses uint64
	pause                  uint32
	until                  time.Duration // end of the pause
	paused                 bool
}

// NewModel returns a Model without jobs.
func NewModel() *Model {
	m := &Model{}
	m.open(tube.Default)
	return m
}

func (m *Model) find(name string) *modelTube {
	for _, t := range m.tubes {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (m *Model) open(name string) *modelTube {
	if t := m.find(name); t != nil {
		return t
	}
	m.tubes = append(m.tubes, &modelTube{name: name})
	return m.tubes[len(m.tubes)-1]
}

// drop drops the tubes that nothing keeps.
func (m *Model) drop() {
	for i := 0; i < len(m.tubes); i++ {
		t := m.tubes[i]
		used := t.name == tube.Default || t.using+t.watching > 0
		for _, j := range m.jobs {
			used = used || j.tube == t
		}
		if !used {
			m.tubes[i] = m.tubes[len(m.tubes)-1]
			m.tubes = m.tubes[:len(m.tubes)-1]
			i--
		}
	}
}

func (m *Model) job(id uint64) *modelJob {
	for _, j := range m.jobs {
		if j.id == id {
			return j
		}
	}
	return nil
}

// first returns the first job, in the order of less, that is in a state and accepted; nil if
// there is none.
func (m *Model) first(s tube.State, accept func(*modelJob) bool) *modelJob {
	var best *modelJob
	for _, j := range m.jobs {
		if j.state == s && accept(j) && (best == nil || less(j, best)) {
			best = j
		}
	}
	return best
}

func less(a, b *modelJob) bool {
	switch a.state {
	case tube.Ready:
		return a.pri < b.pri || a.pri == b.pri && a.id < b.id
	case tube.Delayed:
		return a.due < b.due || a.due == b.due && a.order < b.order
	case tube.Buried:
		return a.order < b.order
	}
	return a.due < b.due
}

// Do carries out one operation.
func (m *Model) Do(op *storage.Op) {
	op.Answer = storage.Answer{}
	a := &op.Answer
	in := func(j *modelJob) bool { return j.tube.name == op.Tube }
	switch op.Kind {
	case storage.Put:
		m.put(op)
	case storage.Take:
		m.take(op)
	case storage.Move:
		m.move(op)
	case storage.Kick:
		a.Count = m.kick(op, in)
	case storage.SetPriority:
		j := m.job(op.ID)
		if a.NotFound = j == nil || j.state == tube.Reserved; !a.NotFound {
			j.pri = op.Pri
		}
	case storage.Reschedule:
		m.reschedule(op)
	case storage.Peek:
		answer(a, m.job(op.ID))
	case storage.PeekHead:
		answer(a, m.first(op.State, in))
	case storage.Pause:
		m.pause(op)
	case storage.Attend:
		m.attend(op)
	case storage.Leave:
		for _, j := range m.jobs {
			if j.state == tube.Reserved && j.holder == op.Holder {
				j.state = tube.Ready
			}
		}
	default:
		m.report(op, in)
	}
	m.drop()
}

func answer(a *storage.Answer, j *modelJob) {
	if j == nil {
		a.NotFound = true
		return
	}
	a.ID, a.Body = j.id, []byte(j.body)
}

func (m *Model) put(op *storage.Op) {
	m.lastID++
	m.total++
	j := &modelJob{id: m.lastID, tube: m.open(op.Tube), pri: op.Pri, delay: op.Delay, ttr: op.TTR, body: string(op.Body)}
	if j.ttr == 0 {
		j.ttr = 1
	}
	j.tube.total++
	m.jobs = append(m.jobs, j)
	m.send(j)
	op.Answer.ID = j.id
}

// send makes a job delayed, or ready if it has no delay.
func (m *Model) send(j *modelJob) {
	if j.delay == 0 {
		j.state = tube.Ready
		return
	}
	m.sequence++
	j.state, j.due, j.order = tube.Delayed, m.now+time.Duration(j.delay)*time.Second, m.sequence
}

func (m *Model) reserve(j *modelJob, h tube.Holder) {
	j.state, j.holder, j.due = tube.Reserved, h, m.now+time.Duration(j.ttr)*time.Second
	j.counters[tube.Reserves]++
}

func (m *Model) take(op *storage.Op) {
	j := m.first(tube.Ready, func(j *modelJob) bool { return slices.Contains(op.Tubes, j.tube.name) && !j.tube.paused })
	if answer(&op.Answer, j); j != nil {
		m.reserve(j, op.Holder)
		return
	}
	op.Answer.Soon = storage.Forever
	if j := m.first(tube.Reserved, func(j *modelJob) bool { return j.holder == op.Holder }); j != nil {
		op.Answer.Soon = j.due - time.Second - m.now
	}
}

func (m *Model) move(op *storage.Op) {
	j := m.job(op.ID)
	op.Answer.NotFound = true
	if j == nil {
		return
	}
	mine := j.state == tube.Reserved && j.holder == op.Holder
	free := j.state != tube.Reserved
	switch {
	case op.Move == tube.Delete && (mine || free):
		m.jobs = slices.DeleteFunc(m.jobs, func(other *modelJob) bool { return other == j })
		j.tube.deletes++
	case op.Move == tube.ReserveJob && free:
		m.reserve(j, op.Holder)
	case op.Move == tube.KickJob && (j.state == tube.Delayed || j.state == tube.Buried):
		j.state = tube.Ready
		j.counters[tube.Kicks]++
	case op.Move == tube.Release && mine:
		j.pri, j.delay = op.Pri, op.Delay
		j.counters[tube.Releases]++
		m.send(j)
	case op.Move == tube.Bury && mine:
		m.sequence++
		j.state, j.pri, j.order = tube.Buried, op.Pri, m.sequence
		j.counters[tube.Buries]++
	case op.Move == tube.Touch && mine:
		j.due = m.now + time.Duration(j.ttr)*time.Second
	default:
		return
	}
	op.Answer.NotFound = false
	if op.Move == tube.ReserveJob {
		answer(&op.Answer, j)
	}
}

func (m *Model) reschedule(op *storage.Op) {
	j := m.job(op.ID)
	op.Answer.NotFound = j == nil || j.state != tube.Ready && j.state != tube.Delayed
	if op.Answer.NotFound {
		return
	}
	j.delay = uint32(op.In / time.Second)
	if op.In%time.Second > 0 {
		j.delay++
	}
	if m.send(j); op.In > 0 {
		j.due = m.now + op.In
	}
}

func (m *Model) kick(op *storage.Op, in func(*modelJob) bool) int {
	from := tube.Buried
	if m.first(from, in) == nil {
		from = tube.Delayed
	}
	n := 0
	for ; n < int(op.Bound); n++ {
		j := m.first(from, in)
		if j == nil {
			break
		}
		j.state = tube.Ready
		j.counters[tube.Kicks]++
	}
	return n
}

func (m *Model) pause(op *storage.Op) {
	t := m.find(op.Tube)
	if op.Answer.NotFound = t == nil; t == nil {
		return
	}
	t.paused, t.pause, t.until = op.Delay > 0, op.Delay, m.now+time.Duration(op.Delay)*time.Second
	t.pauses++
}

func (m *Model) attend(op *storage.Op) {
	for _, name := range op.Tubes {
		t := m.find(name)
		if t == nil {
			if op.Delta < 0 {
				continue
			}
			t = m.open(name)
		}
		if op.Role == tube.Using {
			t.using += op.Delta
		} else {
			t.watching += op.Delta
		}
	}
}

// Tick moves the clock to then and does what is due by then.
func (m *Model) Tick(then time.Duration) {
	m.now = then
	for _, t := range m.tubes {
		if t.paused && t.until <= m.now {
			t.paused, t.pause = false, 0
		}
	}
	for _, j := range m.jobs {
		if (j.state == tube.Delayed || j.state == tube.Reserved) && j.due <= m.now {
			if j.state == tube.Reserved {
				j.counters[tube.Timeouts]++
				m.timeouts++
			}
			j.state = tube.Ready
		}
	}
}

// Reopen does what closing a store and opening it again does: no job is reserved, and no
// tube is attended. Unless the store keeps tubes, their counters and the totals begin anew,
// and tubes are in the order of their oldest jobs.
func (m *Model) Reopen(keepsTubes bool) {
	for _, j := range m.jobs {
		if j.state == tube.Reserved {
			j.state = tube.Ready
		}
	}
	for _, t := range m.tubes {
		t.using, t.watching = 0, 0
	}
	m.drop()
	if keepsTubes {
		return
	}
	m.total, m.timeouts, m.tubes = 0, 0, m.tubes[:1]
	for _, j := range m.jobs {
		if !slices.Contains(m.tubes, j.tube) {
			m.tubes = append(m.tubes, j.tube)
		}
	}
	for _, t := range m.tubes {
		t.total, t.deletes, t.pauses = 0, 0, 0
	}
}
