package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// listMembers carries out a ListMembers, or returns false like listRecords. It examines no more ids than that takes the time of the budget.
func (e *Engine) listMembers(now tube.Instant, op *storage.Op) (done bool) {
	if !e.mayBeginMany() {
		return false
	}
	jobs, next := e.machine.ListMembers(now, op.Args.Name, cursorOf(op), int(op.MaxJobs), e.budget*idsPerMove)
	e.spend(e.budget)
	e.addFiles(jobs)
	op.Answer.Result = &storage.Result{Jobs: jobs, Cursor: next}
	return true
}

// idsPerMove is how many ids are looked up in the time in which one job is moved.
const idsPerMove = 32

// settleBatch carries out a SettleBatch, or a part of it. It is NotFound only if nothing was done: if the batch
// changes between two parts it is due again, and the rest is left to whoever examines it then.
func (e *Engine) settleBatch(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if op.Args.Settle.Part != 0 {
		op.Answer.NotFound = true
		return true
	}
	if p.begun && !e.mayBegin() {
		return false
	}
	part := min(int(op.MaxJobs)-p.done, max(e.budget+1, 0))
	n, more, ok := e.machine.SettleBatch(now, op.Args.Name, op.Args.Settle, part)
	if !ok {
		op.Answer.NotFound = !p.begun
		return true
	}
	p.begun = true
	e.spend(max(n-1, 0))
	p.done += n
	op.Answer.Count = p.done
	return !more || p.done == int(op.MaxJobs)
}

// cancelBatch carries out a CancelBatch, or a part of it.
func (e *Engine) cancelBatch(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if !e.mayBeginMany() {
		return false
	}
	if !p.begun {
		p.begun, p.cancel = true, e.machine.CancelBatch(now, op.Args.Name)
		if op.Answer.NotFound = p.cancel == nil; p.cancel == nil {
			return true
		}
	}
	done = e.machine.CancelSome(now, p.cancel, e.budget)
	e.spend(e.budget)
	op.Answer.Count = p.cancel.Removed()
	return done
}
