package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

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
				e.fetchBody(snapshot, op)
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

// fetchBody reads the body of an answer. If it cannot be read, and the job was reserved for
// this answer, the job is buried, and a take continues with the next job.
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
	e.journal.bodyReads.succeeded()
}

// notifyListener notifies the listener of jobs that can be taken, and of the next due time.
func (e *Engine) notifyListener() {
	e.mu.Lock()
	wakeUps, next, now := e.wakeUps(), e.machine.Next(), e.now()
	e.mu.Unlock()
	e.sendWakeUps(wakeUps)
	e.listener.Due(untilDue(next, now))
}

// bodyUnreadable is called when the body of an answer cannot be read. It changes the
// answer: to an error or, for a take, to another job. If the body of that job is on disk
// only as well, again is true and the caller reads the body from the snapshot, which it
// closes. Otherwise the answer is complete.
func (e *Engine) bodyUnreadable(op *storage.Op, err error) (from tables.Snapshot, again bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id, now := op.Answer.ID, e.now()
	op.Answer = storage.Answer{Err: fmt.Errorf("%w: %w", storage.ErrUnavailable, err)}
	reserved := op.Kind == storage.Take || op.Kind == storage.Move
	if !reserved || !e.journal.bodyReads.failed(err) {
		e.journal.bodyReads.report("a body cannot be read from the journal", id, err)
		if reserved {
			e.machine.Move(now, tube.GiveBack, op.Holder, id, tube.Terms{})
		}
		return from, false
	}
	e.machine.SetAside(now, op.Holder, id)
	e.journal.bodyReads.report("a job whose body cannot be read from the journal is buried", id, err)
	if op.Kind == storage.Move {
		return from, false
	}
	return e.takeNext(now, op)
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

// bodyReads counts and logs failures to read bodies.
type bodyReads struct {
	failures atomic.Int64 // in a row
	log      *slog.Logger
	limited  telemetry.Throttle
}

// maxFailures is how many failures in a row are attributed to damaged files. After more, the
// disk is at fault, and no further job is buried until a body could be read.
const maxFailures = 256

func (r *bodyReads) succeeded() {
	if r.failures.Load() != 0 {
		r.failures.Store(0)
	}
}

// failed counts a failure, and returns whether the job has to be buried.
func (r *bodyReads) failed(err error) bool {
	if errors.Is(err, ErrGone) {
		return false // the tables are not where they were; the job is intact
	}
	return tables.IsDamage(err) || r.failures.Add(1) <= maxFailures
}

// report logs a failure.
func (r *bodyReads) report(what string, job uint64, err error) {
	r.limited.Error(r.log, what, "job", job, "err", err.Error())
}
