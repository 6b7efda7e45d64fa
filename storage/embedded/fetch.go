package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/storage"
	"redstalk/tube"
)

// absent is an operation whose answer lacks its body, which is on disk only.
type absent struct {
	batch *storage.Batch
	op    *storage.Op
}

// fetchAside has the bodies that tasks lack read on a goroutine of its own, and
// the tasks ended or gone on with after that. The bodies are read from the tables
// as they were when the operations were carried out: what happens to the jobs
// meanwhile does not matter. The lock is held.
func (e *Engine) fetchAside(tasks []*task) {
	snapshot := e.journal.tables.db.NewSnapshot()
	go func() {
		for _, t := range tasks {
			for _, op := range t.absent {
				e.fetch(snapshot, op)
			}
			t.absent = nil
		}
		snapshot.Close()
		e.fetched(tasks)
	}()
}

// fetched ends tasks whose bodies are there, or has the worker go on with them.
func (e *Engine) fetched(tasks []*task) {
	var ended []*storage.Batch
	e.mu.Lock()
	for _, t := range tasks {
		if t.ended() {
			ended = append(ended, t.batch)
		} else {
			e.enqueue(t)
		}
	}
	early, bound := e.divide(ended)
	lead, ready := e.journal.submit(early, bound, false)
	e.mu.Unlock()
	done(ready)
	if lead != nil {
		e.journal.lead(lead, nil)
	}
	e.leaveTask(len(ended))
}

// fetch reads the body of an answer. A job whose body cannot be read is set
// aside if it was reserved for the reply, and a take goes on with the next one.
func (e *Engine) fetch(from pebble.Reader, op *storage.Op) {
	body, err := read(from, op.Answer.ID)
	if err != nil {
		defer e.announce()
	}
	for err != nil {
		snapshot := e.unreadable(op, err)
		if snapshot == nil {
			return
		}
		body, err = read(snapshot, op.Answer.ID)
		snapshot.Close()
	}
	op.Answer.Body = body
	e.journal.reads.succeeded()
}

// announce tells the listener how things are now.
func (e *Engine) announce() {
	e.mu.Lock()
	roused, next, now := e.takeRoused(), e.machine.Next(), e.now()
	e.mu.Unlock()
	e.tell(roused)
	e.listener.Due(next.Until(now))
}

// unreadable is called when the body of an answer cannot be read. If another
// job is taken instead, whose body is on disk as well, it returns what that is
// to be read from; nil if the answer stands.
func (e *Engine) unreadable(op *storage.Op, err error) *pebble.Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	id, now := op.Answer.ID, e.now()
	op.Answer = storage.Answer{Err: fmt.Errorf("%w: %w", storage.ErrUnavailable, err)}
	reserved := op.Kind == storage.Take || op.Kind == storage.Move
	if !reserved || !e.journal.reads.failed(err) {
		e.journal.reads.tell("a body cannot be read from the journal", id, err)
		if reserved {
			e.machine.Move(now, tube.GiveBack, op.Holder, id, tube.Terms{})
		}
		return nil
	}
	e.machine.SetAside(now, op.Holder, id)
	e.journal.reads.tell("a job whose body cannot be read from the journal is buried", id, err)
	if op.Kind == storage.Move {
		return nil
	}
	op.Answer = storage.Answer{}
	job, soon := e.machine.Take(now, op.Holder, op.Tubes)
	e.machine.ForgetWatched()
	if job == nil {
		op.Answer.NotFound, op.Answer.Soon = true, soon.Until(now)
		return nil
	}
	op.Answer.ID, op.Answer.Body = job.ID, e.machine.Body(job)
	if op.Answer.Body != nil || job.Size() == 0 {
		return nil
	}
	return e.journal.tables.db.NewSnapshot()
}

// reads is what has become of reading bodies lately.
type reads struct {
	failures atomic.Int64 // in a row

	// guarded by the engine's lock
	log   *slog.Logger
	clock func() time.Time
	told  time.Time
	quiet int // failures that the operator was not told of since
}

// maxFailures is after how many failures in a row it is taken for the disk that
// fails rather than for files that are damaged: no further jobs are set aside
// until something can be read again.
const maxFailures = 256

func (r *reads) succeeded() {
	if r.failures.Load() != 0 {
		r.failures.Store(0)
	}
}

// failed notes a failure, and tells whether the job should be set aside.
func (r *reads) failed(err error) bool {
	if errors.Is(err, ErrGone) {
		return false // the tables are not where they were, the job is sound
	}
	return isDamage(err) || r.failures.Add(1) <= maxFailures
}

// isDamage tells whether trying again cannot help.
func isDamage(err error) bool {
	return errors.Is(err, pebble.ErrCorruption) || errors.Is(err, pebble.ErrNotFound) || errors.Is(err, errRecord)
}

// tell tells the operator, but not of each of very many.
func (r *reads) tell(what string, job uint64, err error) {
	now := r.clock()
	if now.Sub(r.told) < complainEvery {
		r.quiet++
		return
	}
	r.log.Error(what, "job", job, "err", err.Error(), "not told before", r.quiet)
	r.told, r.quiet = now, 0
}

// read reads the body of a job that has one.
func read(from pebble.Reader, id uint64) ([]byte, error) {
	body, err := readInline(from, id)
	if err == nil && len(body) == 0 {
		body, err = get(from, idKey(nil, bodyKey, id), func(value []byte) ([]byte, error) { return value, nil })
	}
	if err != nil {
		return nil, fmt.Errorf("reading the body of job %d: %w", id, err)
	}
	return body, nil
}

func readInline(from pebble.Reader, id uint64) ([]byte, error) {
	return get(from, idKey(nil, jobKey, id), func(value []byte) ([]byte, error) {
		_, body, err := decodeRecord(id, value, func([]byte) string { return "" })
		return body, err
	})
}

// get returns a copy of a part of the value of key.
func get(from pebble.Reader, key []byte, part func([]byte) ([]byte, error)) ([]byte, error) {
	value, closer, err := from.Get(key)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	p, err := part(value)
	return bytes.Clone(p), err
}
