package embedded

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/storage"
	"redstalk/tube"
)

// absent is the operations of a batch whose answers lack their bodies, and the
// journal as it was when they were carried out: what happens to the jobs
// meanwhile does not matter.
type absent struct {
	ops      []*storage.Op
	snapshot *pebble.Snapshot
}

// takeAbsent collects what answerJob has noted; nil if nothing. The lock is
// held.
func (e *Engine) takeAbsent() *absent {
	if len(e.absent) == 0 {
		return nil
	}
	a := &absent{ops: e.absent, snapshot: e.journal.db.NewSnapshot()}
	e.absent = nil
	return a
}

// fetch reads the bodies. A job whose body cannot be read is given back if it
// was reserved for the reply.
func (e *Engine) fetch(a *absent) {
	defer a.snapshot.Close()
	for _, op := range a.ops {
		body, err := read(a.snapshot, op.Answer.ID)
		if err == nil {
			op.Answer.Body = body
			continue
		}
		e.journal.log.Error("a body cannot be read from the journal", "job", op.Answer.ID, "err", err)
		e.mu.Lock()
		if op.Kind == storage.Take || op.Kind == storage.Move {
			e.machine.Move(e.now(), tube.GiveBack, op.Holder, op.Answer.ID, tube.Terms{})
		}
		e.mu.Unlock()
		op.Answer = storage.Answer{Err: fmt.Errorf("%w: %w", storage.ErrUnavailable, err)}
	}
}

func read(from pebble.Reader, id uint64) ([]byte, error) {
	value, closer, err := from.Get(idKey(nil, bodyKey, id))
	if err != nil {
		return nil, fmt.Errorf("reading the body of job %d: %w", id, err)
	}
	defer closer.Close()
	return bytes.Clone(value), nil
}
