package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// apply carries out one operation on the machine, of which p is done already.
// It returns false if it is to be gone on with later. The lock is held.
func (e *Engine) apply(now tube.Instant, b *storage.Batch, op *storage.Op, p *progress) bool {
	m, a := e.machine, &op.Answer
	switch op.Kind {
	case storage.Put:
		return e.put(now, op, p)
	case storage.Take:
		return e.take(now, b, op)
	case storage.Move:
		job := m.Move(now, op.Move, op.Holder, op.ID, tube.Terms{Pri: op.Pri, Delay: op.Delay})
		if a.NotFound = job == nil; op.Move == tube.ReserveJob {
			e.answerJob(b, op, job)
		}
	case storage.Kick:
		return e.kick(now, op, p)
	case storage.Peek:
		e.answerJob(b, op, m.Find(op.ID))
	case storage.PeekHead:
		e.answerJob(b, op, m.Head(op.Tube, op.State))
	case storage.Pause:
		a.NotFound = !m.Pause(now, op.Tube, op.Delay)
	case storage.Attend:
		return e.attend(op, p)
	case storage.Leave:
		return e.leave(now, op, p)
	case storage.Tubes:
		return e.tubes(op)
	default:
		e.report(now, op)
	}
	return true
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
	}
}

// namesPerMove is how many names of tubes are listed in the time in which a job
// is moved.
const namesPerMove = 32

// tubes carries out a Tubes. It returns false if it has to be tried again.
func (e *Engine) tubes(op *storage.Op) bool {
	if !e.mayBegin() {
		return false
	}
	op.Answer.Names = e.machine.Tubes()
	e.spend(len(op.Answer.Names) / namesPerMove)
	return true
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
