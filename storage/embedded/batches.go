package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// applyBatch carries out an operation on the record of one batch.
func (e *Engine) applyBatch(now tube.Instant, op *storage.Op) {
	a := &op.Answer
	if op.Kind == storage.SealBatch {
		e.machine.SealBatch(now, op.Args.Name)
		return
	}
	r := &storage.Result{Parts: 1, Now: e.machine.Wall(now)}
	b := e.machine.Batch(now, op.Args.Name)
	if a.NotFound, a.Result = b == nil, r; b == nil {
		return
	}
	for i := range b.After {
		b.After[i].File = e.journal.file()
	}
	r.Batches = []*tube.JobBatch{b}
}

// applyBatchInParts carries out an operation on batches, or a part of it.
func (e *Engine) applyBatchInParts(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	switch op.Kind {
	case storage.ListBatches:
		return e.listBatches(now, op)
	case storage.ListMembers:
		return e.listMembers(now, op)
	case storage.DueBatches:
		return e.dueBatches(now, op, p)
	case storage.CancelBatch:
		return e.cancelBatch(now, op, p)
	}
	return e.settleBatch(now, op, p)
}

// listBatches carries out a ListBatches. It returns false if it has to be tried again later: no
// more than one page is made under one hold of the lock.
func (e *Engine) listBatches(now tube.Instant, op *storage.Op) (done bool) {
	if !e.mayBeginMany() {
		return false
	}
	page, next := e.machine.ListBatches(cursorOf(op), int(op.MaxJobs))
	e.spend(e.budget)
	op.Answer.Result = &storage.Result{Batches: page, Cursor: next, Parts: 1, Now: e.machine.Wall(now)}
	return true
}

// listMembers carries out a ListMembers, likewise. It examines no more ids than that takes the time of the budget.
func (e *Engine) listMembers(now tube.Instant, op *storage.Op) (done bool) {
	if !e.mayBeginMany() {
		return false
	}
	jobs, next := e.machine.ListMembers(now, op.Args.Name, cursorOf(op), int(op.MaxJobs), e.budget*idsPerMove)
	e.spend(e.budget)
	for i := range jobs {
		jobs[i].File = e.journal.file()
	}
	op.Answer.Result = &storage.Result{Jobs: jobs, Cursor: next}
	return true
}

// idsPerMove is how many ids are looked up in the time in which one job is moved.
const idsPerMove = 32

// dueBatches carries out a DueBatches, or a part of it.
func (e *Engine) dueBatches(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if !p.begun {
		p.begun, p.limit = true, int(min(op.MaxJobs, tube.MaxListed))
		op.Answer.Result = new(storage.Result)
	}
	part := min(p.limit-p.done, e.budget+1)
	due := e.machine.DueBatches(now, max(part, 0))
	e.spend(max(len(due)-1, 0))
	p.done += len(due)
	r := op.Answer.Result
	r.Batches, r.Now = append(r.Batches, due...), e.machine.Wall(now)
	return p.done == p.limit || len(due) < part
}

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
