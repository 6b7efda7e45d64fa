package embedded

import (
	"fmt"
	"log/slog"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// bodyNeeded is an operation whose answer lacks its body, which is on disk only.
type bodyNeeded struct {
	batch *storage.Batch
	op    *storage.Op
}

// fetchBodies reads the bodies that tasks lack, on a goroutine of its own. Then it ends the
// tasks, or gives them back to the worker. It reads the tables as they were when the operations
// were carried out, so it does not matter whether the jobs change meanwhile. The lock is held.
func (e *Engine) fetchBodies(tasks []*task) {
	snapshot := e.journal.tables.Snapshot()
	go func() {
		for _, t := range tasks {
			for _, op := range t.missing {
				e.fetch(snapshot, op)
			}
			t.missing = nil
		}
		snapshot.Close()
		e.bodiesFetched(tasks)
	}()
}

// bodiesFetched ends tasks that now have their bodies, or gives them back to the worker.
func (e *Engine) bodiesFetched(tasks []*task) {
	var ended []*storage.Batch
	e.mu.Lock()
	for _, t := range tasks {
		if t.ended() {
			ended = append(ended, t.batch)
		} else {
			e.enqueue(t)
		}
	}
	e.startSender()
	onWritten, onDurable := e.splitByWait(ended)
	commit, done := e.journal.addBatches(onWritten, onDurable, false)
	e.mu.Unlock()
	endBatches(done)
	if commit != nil {
		e.journal.commit(commit, nil)
	}
	e.tasksEnded(len(ended))
}

// fetch reads what an answer lacks.
func (e *Engine) fetch(from tables.Snapshot, op *storage.Op) {
	switch op.Kind {
	case storage.WaitEnded, storage.ListEnded:
		e.fetchEnded(from, op)
	case storage.GetCheckpoint:
		e.fetchCheckpoint(from, op)
	default:
		e.fetchBody(from, op)
	}
}

// fetchBody reads the body of an answer. If it cannot be read, and the job was taken for this
// answer, the job is put back or, if it is damaged, buried; then the take continues with the next job.
func (e *Engine) fetchBody(from tables.Snapshot, op *storage.Op) {
	body, err := from.Body(op.Answer.ID)
	if err != nil {
		defer e.notifyListener()
	}
	for err != nil {
		snapshot, again := e.bodyUnreadable(op, err)
		if !again {
			return
		}
		body, err = snapshot.Body(op.Answer.ID)
		snapshot.Close()
	}
	op.Answer.Body = body
}

// notifyListener notifies the listener of jobs that can be taken, and of the next due time.
func (e *Engine) notifyListener() {
	e.mu.Lock()
	wakeUps, ends, next, now := e.wakeUps(), e.machine.EndsNoticed(), e.machine.Next(), e.now()
	e.mu.Unlock()
	e.sendWakeUps(wakeUps)
	e.sendEnds(ends)
	e.listener.Due(untilDue(next, now))
}

// bodyUnreadable is called when the body of an answer cannot be read. It changes the
// answer: to an error or, for a take of a damaged job, to another job. If the body of that job is
// on disk only as well, again is true and the caller reads the body from the snapshot, which it
// closes. Otherwise the answer is complete.
func (e *Engine) bodyUnreadable(op *storage.Op, err error) (from tables.Snapshot, again bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id, now, held := op.Answer.ID, e.now(), e.stillHeld(op)
	op.Answer = unreadable(err)
	if op.Kind == storage.Take && tables.IsDamage(err) {
		if held {
			e.bury(now, op.Holder, id, err)
		}
		return e.takeNext(now, op)
	}
	e.journal.bodyReads.report("a body cannot be read from the journal; its job stays where it is", id, err)
	if held {
		e.machine.Untake(now, op.Holder, id)
	}
	return from, false
}

// unreadable is the answer if a body cannot be read.
func unreadable(err error) storage.Answer {
	return storage.Answer{Err: fmt.Errorf("%w: %w", storage.ErrUnavailable, err)}
}

// stillHeld reports whether the job of a take is still reserved by it: its TTR may have run out while its
// body was read. The lock is held.
func (e *Engine) stillHeld(op *storage.Op) bool {
	if op.Kind != storage.Take {
		return false
	}
	j := e.machine.Find(op.Answer.ID)
	return j != nil && (op.Holder != tube.LeaseHolder || e.machine.Lease(j) == op.Answer.Result.Lease)
}

// damagedReason is the reason of a job that was buried because its body is damaged.
const damagedReason = "the body is damaged on the disk"

// bury buries a job whose body is damaged. The lock is held.
func (e *Engine) bury(now tube.Instant, h tube.Holder, id uint64, err error) {
	if e.machine.SetAside(now, h, id, damagedReason) {
		e.journal.bodyReads.report("a job whose body cannot be read from the journal, since it is damaged, is buried", id, err)
	}
}

// takeNext carries out a Take once more. It returns what bodyUnreadable returns. The lock is
// held.
func (e *Engine) takeNext(now tube.Instant, op *storage.Op) (from tables.Snapshot, again bool) {
	op.Answer = storage.Answer{}
	job, soon := e.takeJob(now, op)
	e.machine.ForgetWatched()
	if job == nil {
		op.Answer.NotFound, op.Answer.Soon = true, soon.Until(now)
		return from, false
	}
	op.Answer.ID = job.ID
	e.answerLease(op, job)
	e.answerBody(&op.Answer, job)
	if op.Answer.Body != nil || job.Size() == 0 {
		return from, false
	}
	return e.journal.tables.Snapshot(), true
}

// bodyReads logs failures to read bodies.
type bodyReads struct {
	log     *slog.Logger
	limited telemetry.Throttle
}

func (r *bodyReads) report(what string, job uint64, err error) {
	r.limited.Error(r.log, what, "job", job, "err", err.Error())
}
