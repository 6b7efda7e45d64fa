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
			a.Result = &storage.Result{Schedules: []*tube.Schedule{s}, Now: now}
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
		op.Answer.ID = put.ID
		op.Answer.Result = &storage.Result{Outcome: put.Result, State: put.State}
	}
}

// recordsPerMove is how many records of schedules are read in the time in which one job is moved.
const recordsPerMove = 4

// pageOfSchedules carries out a ListSchedules or a DueSchedules. It returns false if it has to be
// tried again later.
func (e *Engine) pageOfSchedules(now tube.Instant, op *storage.Op) (done bool) {
	if !e.mayBegin() {
		return false
	}
	r := &storage.Result{Now: now}
	if op.Kind == storage.DueSchedules {
		r.Schedules = e.machine.DueSchedules(now, int(op.MaxJobs))
	} else {
		r.Schedules, r.Cursor = e.machine.ListSchedules(cursorOf(op), int(op.MaxJobs))
	}
	e.spend(len(r.Schedules) / recordsPerMove)
	op.Answer.Result = r
	return true
}

// scheduleSize is how many bytes the body of the record takes that op writes, if it writes one.
func scheduleSize(op *storage.Op) int {
	if op.Args == nil || op.Args.Schedule == nil {
		return 0
	}
	return len(op.Args.Schedule.Body)
}
