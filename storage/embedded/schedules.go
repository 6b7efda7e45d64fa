package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// setSchedule carries out a SetSchedule.
func (e *Engine) setSchedule(op *storage.Op) {
	if e.journal != nil && !e.journal.guard.reserveRoom(scheduleSize(op)) {
		op.Answer.Err = storage.ErrNoSpace
		return
	}
	op.Answer.NotFound = !e.machine.SetSchedule(op.Args.Schedule)
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

// scheduleSize is how many bytes the body of the record takes that op writes, if it writes one.
func scheduleSize(op *storage.Op) int {
	if op.Args == nil || op.Args.Schedule == nil {
		return 0
	}
	return len(op.Args.Schedule.Body)
}
