package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// applyToRecords carries out an operation on schedules or batches, or a part of it.
func (e *Engine) applyToRecords(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	switch op.Kind {
	case storage.GetRecord:
		e.getRecord(now, op)
	case storage.ListRecords:
		return e.listRecords(now, op)
	case storage.DueRecords:
		return e.dueRecords(now, op, p)
	case storage.ListMembers:
		return e.listMembers(now, op)
	case storage.CancelBatch:
		return e.cancelBatch(now, op, p)
	case storage.SettleBatch:
		return e.settleBatch(now, op, p)
	case storage.SealBatch:
		e.machine.SealBatch(now, op.Args.Name)
	case storage.SetSchedule:
		e.setSchedule(op)
	case storage.DeleteSchedule:
		op.Answer.NotFound = !e.machine.DeleteSchedule(op.Args.Name)
	}
	return true
}

// getRecord carries out a GetRecord.
func (e *Engine) getRecord(now tube.Instant, op *storage.Op) {
	a := &op.Answer
	a.Result = &storage.Result{Parts: 1, Now: e.machine.Wall(now)}
	a.NotFound = true
	switch op.Records {
	case tube.Schedules:
		if s := e.machine.Schedule(op.Args.Name); s != nil {
			a.NotFound, a.Result.Records = false, []tube.NamedRecord{s}
		}
	case tube.JobBatches:
		if b := e.machine.Batch(now, op.Args.Name); b != nil {
			e.addFiles(b.After)
			a.NotFound, a.Result.Records = false, []tube.NamedRecord{b}
		}
	}
}

// addFiles says in which file jobs are.
func (e *Engine) addFiles(jobs []tube.JobStats) {
	for i := range jobs {
		jobs[i].File = e.journal.file()
	}
}

// listRecords carries out a ListRecords. It returns false if it has to be tried again later: no
// more than one page is made under one hold of the lock.
func (e *Engine) listRecords(now tube.Instant, op *storage.Op) (done bool) {
	if !e.mayBeginMany() {
		return false
	}
	page, next := e.machine.ListRecords(op.Records, cursorOf(op), int(op.MaxJobs))
	e.spend(e.budget)
	op.Answer.Result = &storage.Result{Records: page, Cursor: next, Parts: 1, Now: e.machine.Wall(now)}
	return true
}

// dueRecords carries out a DueRecords, or a part of it.
func (e *Engine) dueRecords(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if !p.begun {
		p.begun, p.limit = true, int(min(op.MaxJobs, tube.MaxListed))
		op.Answer.Result = new(storage.Result)
	}
	part := min(p.limit-p.done, e.budget+1)
	due := e.machine.DueRecords(now, op.Records, max(part, 0))
	e.spend(max(len(due)-1, 0))
	p.done += len(due)
	r := op.Answer.Result
	r.Records, r.Now = append(r.Records, due...), e.machine.Wall(now)
	return p.done == p.limit || len(due) < part
}
