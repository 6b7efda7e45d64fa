package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// apply carries out one operation on the machine. The lock is held.
func (e *Engine) apply(now tube.Instant, op *storage.Op) {
	m, a := e.machine, &op.Answer
	switch op.Kind {
	case storage.Put:
		a.ID = m.Put(now, tube.NewJob{Tube: op.Tube, Pri: op.Pri, Delay: op.Delay, TTR: op.TTR, Body: op.Body}).ID
	case storage.Take:
		job, soon := m.Take(now, op.Holder, op.Tubes)
		if e.answerJob(a, job); job == nil {
			a.Soon = soon.Until(now)
		}
	case storage.Move:
		job := m.Move(now, op.Move, op.Holder, op.ID, tube.Terms{Pri: op.Pri, Delay: op.Delay})
		if a.NotFound = job == nil; op.Move == tube.ReserveJob {
			e.answerJob(a, job)
		}
	case storage.Kick:
		a.Count = m.Kick(now, op.Tube, op.Bound)
	case storage.Peek:
		e.answerJob(a, m.Find(op.ID))
	case storage.PeekHead:
		e.answerJob(a, m.Head(op.Tube, op.State))
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

// report carries out an operation that only tells. The lock is held.
func (e *Engine) report(now tube.Instant, op *storage.Op) {
	m, a := e.machine, &op.Answer
	switch op.Kind {
	case storage.JobStats:
		if s, found := m.JobStats(now, op.ID); found {
			a.Job = &s
		} else {
			a.NotFound = true
		}
	case storage.TubeStats:
		if s, found := m.TubeStats(now, op.Tube); found {
			a.TubeStats = &s
		} else {
			a.NotFound = true
		}
	case storage.Stats:
		a.Stats = &storage.Figures{Totals: m.Totals()}
	case storage.Tubes:
		a.Names = m.Tubes()
	}
}

// answerJob copies what may leave the lock: both fields never change.
func (e *Engine) answerJob(a *storage.Answer, j *tube.Job) {
	if j == nil {
		a.NotFound = true
		return
	}
	a.ID, a.Body = j.ID, e.machine.Body(j)
}
