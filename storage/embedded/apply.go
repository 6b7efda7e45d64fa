package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// apply carries out one operation on the machine. The lock is held.
func (e *Engine) apply(now tube.Instant, b *storage.Batch, op *storage.Op) {
	m, a := e.machine, &op.Answer
	switch op.Kind {
	case storage.Put:
		e.put(now, op)
	case storage.Take:
		job, soon := m.Take(now, op.Holder, op.Tubes)
		if e.answerJob(b, op, job); job == nil {
			a.Soon = soon.Until(now)
		}
	case storage.Move:
		job := m.Move(now, op.Move, op.Holder, op.ID, tube.Terms{Pri: op.Pri, Delay: op.Delay})
		if a.NotFound = job == nil; op.Move == tube.ReserveJob {
			e.answerJob(b, op, job)
		}
	case storage.Kick:
		a.Count = m.Kick(now, op.Tube, op.Bound)
	case storage.Peek:
		e.answerJob(b, op, m.Find(op.ID))
	case storage.PeekHead:
		e.answerJob(b, op, m.Head(op.Tube, op.State))
	case storage.Pause:
		a.NotFound = !m.Pause(now, op.Tube, op.Delay)
	case storage.Attend:
		for _, name := range op.Tubes {
			m.Attend(name, op.Role, op.Delta)
		}
	case storage.Leave:
		m.Leave(now, op.Holder)
	default:
		e.report(now, op)
	}
}

func (e *Engine) put(now tube.Instant, op *storage.Op) {
	if e.journal != nil && !e.journal.guard.room(len(op.Body)) {
		op.Answer.Err = storage.ErrNoSpace
		return
	}
	j := e.machine.Put(now, tube.NewJob{Tube: op.Tube, Pri: op.Pri, Delay: op.Delay, TTR: op.TTR, Body: op.Body})
	op.Answer.ID = j.ID
}

// report carries out an operation that only tells. The lock is held.
func (e *Engine) report(now tube.Instant, op *storage.Op) {
	m, a := e.machine, &op.Answer
	switch op.Kind {
	case storage.JobStats:
		s, found := m.JobStats(now, op.ID)
		if a.NotFound = !found; found {
			s.File = e.journal.file()
			a.Job = &s
		}
	case storage.TubeStats:
		s, found := m.TubeStats(now, op.Tube)
		if a.NotFound = !found; found {
			a.TubeStats = &s
		}
	case storage.Stats:
		a.Stats = &storage.Figures{Totals: m.Totals(), Log: e.journal.figures()}
	case storage.Tubes:
		a.Names = m.Tubes()
	}
}

// answerJob copies what may leave the lock: both fields never change. A body
// that is not in memory is noted in absent.
func (e *Engine) answerJob(b *storage.Batch, op *storage.Op, j *tube.Job) {
	a := &op.Answer
	if j == nil {
		a.NotFound = true
		return
	}
	a.ID, a.Body = j.ID, e.machine.Body(j)
	if a.Body == nil && j.Size() > 0 {
		e.absent = append(e.absent, absent{b, op})
	}
}
