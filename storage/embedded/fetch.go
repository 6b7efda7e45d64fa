package embedded

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/storage"
	"redstalk/tube"
)

// absent is an operation whose answer lacks its body, which is on disk only.
type absent struct {
	batch *storage.Batch
	op    *storage.Op
}

// fetchAside has the bodies that answerJob has noted read on a goroutine of its
// own, and the batches that lack them ended after that; it returns the others,
// and whether one of the former is bound to the disk. The bodies are read from
// the tables as they were when the operations were carried out: what happens to
// the jobs meanwhile does not matter. The lock is held.
func (e *Engine) fetchAside(batches []*storage.Batch) (ready []*storage.Batch, needs bool) {
	if len(e.absent) == 0 {
		return batches, false
	}
	wanted, snapshot := e.absent, e.journal.tables.db.NewSnapshot()
	e.absent = nil
	var slow []*storage.Batch
	for _, b := range batches {
		if slices.ContainsFunc(wanted, func(a absent) bool { return a.batch == b }) {
			slow = append(slow, b)
		} else {
			ready = append(ready, b)
		}
	}
	early, bound := e.divide(slow)
	e.journal.fetching.Add(1)
	go func() {
		defer e.journal.fetching.Done()
		for _, a := range wanted {
			e.fetch(snapshot, a.op)
		}
		snapshot.Close()
		e.mu.Lock()
		lead, ready := e.journal.submit(early, bound, false)
		e.mu.Unlock()
		done(ready)
		if lead != nil {
			e.journal.lead(lead, nil)
		}
	}()
	return ready, len(bound) > 0
}

// fetch reads a body. A job whose body cannot be read is given back if it was
// reserved for the reply.
func (e *Engine) fetch(from pebble.Reader, op *storage.Op) {
	body, err := read(from, op.Answer.ID)
	if err == nil {
		op.Answer.Body = body
		return
	}
	e.journal.slog.Error("a body cannot be read from the journal", "job", op.Answer.ID, "err", err)
	if op.Kind == storage.Take || op.Kind == storage.Move {
		e.mu.Lock()
		e.machine.Move(e.now(), tube.GiveBack, op.Holder, op.Answer.ID, tube.Terms{})
		e.mu.Unlock()
	}
	op.Answer = storage.Answer{Err: fmt.Errorf("%w: %w", storage.ErrUnavailable, err)}
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
