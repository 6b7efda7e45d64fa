package server

import (
	"redstalk/server/queue"
	"redstalk/storage"
)

// outbox takes a batch to the store soon, and not within the call: the turn of a
// loop, or a wire.
type submitter interface {
	Submit(*storage.Batch)
}

// turn is one round of a loop: what its sessions want of the store is handed
// over together at the end, so that it can become one commit. It belongs to the
// goroutine of the loop.
type loopIteration struct {
	batches []*storage.Batch
}

// Hand implements outbox.
func (t *loopIteration) Submit(b *storage.Batch) { t.batches = append(t.batches, b) }

// end hands over what the turn has collected.
func (t *loopIteration) end(q *queue.Queue) {
	if len(t.batches) == 0 {
		return
	}
	t.handOff(q)
	q.Store().Do(t.batches...)
	t.clear()
}

// foresee adds a round for those who wait for what the turn puts.
func (t *loopIteration) handOff(q *queue.Queue) {
	if round := q.HandOff(t.batches); round != nil {
		t.Submit(round)
	}
}

func (t *loopIteration) clear() {
	clear(t.batches)
	t.batches = t.batches[:0]
}
