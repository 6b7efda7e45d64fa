package netpoll

import (
	"redstalk/server/queue"
	"redstalk/storage"
)

// loopIteration collects the batches that sessions submit during one iteration of a loop.
// They go to the store together at the end, so that they can become one commit. It belongs
// to the goroutine of the loop.
type loopIteration struct {
	batches []*storage.Batch
}

// Submit implements Submitter.
func (it *loopIteration) Submit(b *storage.Batch) { it.batches = append(it.batches, b) }

// end submits the collected batches to the store.
func (it *loopIteration) end(q *queue.Queue) {
	if len(it.batches) == 0 {
		return
	}
	q.Store().Do(it.batches...)
	it.clear()
}

func (it *loopIteration) clear() {
	clear(it.batches)
	it.batches = it.batches[:0]
}
