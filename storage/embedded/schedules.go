package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// applySchedule carries out an operation on the record of one schedule.
func (e *Engine) applySchedule(now tube.Instant, op *storage.Op) {
	m, a := e.machine, &op.Answer
	switch op.Kind {
	case storage.SetSchedule:
		if e.journal != nil && !e.journal.guard.reserveRoom(scheduleSize(op)) {
			a.Err = storage.ErrNoSpace
			return
		}
		a.NotFound = !m.SetSchedule(op.Args.Schedule)
	case storage.DeleteSchedule:
		a.NotFound = !m.DeleteSchedule(op.Args.Name)
	case storage.GetSchedule:
		s := m.Schedule(op.Args.Name)
		if a.NotFound = s == nil; s != nil {
			a.Result = &storage.Result{Schedules: []*tube.Schedule{s}, Now: e.machine.Wall(now)}
		}
	}
}

// putScheduled carries out a PutScheduled. The disk has room for it.
func (e *Engine) putScheduled(now tube.Instant, op *storage.Op) {
	put, isNext := e.machine.PutScheduled(now, newJob(op), op.Args.Tags, op.Args.Schedule)
	if !isNext || put.Result != tube.PutNew {
		op.Buffer.Release()
	}
	if op.Answer.NotFound = !isNext; isNext {
		op.Answer.ID, op.Answer.Outcome, op.Answer.State = put.ID, put.Result, put.State
	}
}

// listSchedules carries out a ListSchedules. It returns false if it has to be tried again later: no
// more than one page is made under one hold of the lock.
func (e *Engine) listSchedules(now tube.Instant, op *storage.Op) (done bool) {
	if !e.mayBeginMany() {
		return false
	}
	page, next := e.machine.ListSchedules(cursorOf(op), int(op.MaxJobs))
	e.spend(e.budget)
	op.Answer.Result = &storage.Result{Schedules: page, Cursor: next, Now: e.machine.Wall(now)}
	return true
}

// dueSchedules carries out a DueSchedules, or a part of it.
func (e *Engine) dueSchedules(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if !p.begun {
		p.begun, p.limit = true, int(min(op.MaxJobs, tube.MaxListed))
		op.Answer.Result = new(storage.Result)
	}
	part := min(p.limit-p.done, e.budget+1)
	due := e.machine.DueSchedules(now, max(part, 0))
	e.spend(max(len(due)-1, 0))
	p.done += len(due)
	r := op.Answer.Result
	r.Schedules, r.Now = append(r.Schedules, due...), e.machine.Wall(now)
	return p.done == p.limit || len(due) < part
}

// scheduleSize is how many bytes the body of the record takes that op writes, if it writes one.
func scheduleSize(op *storage.Op) int {
	if op.Args == nil || op.Args.Schedule == nil {
		return 0
	}
	return len(op.Args.Schedule.Body)
}
