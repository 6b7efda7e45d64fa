package server

import "redstalk/storage"

// outbox takes a batch to the store soon, and not within the call: the turn of a
// loop, or a wire.
type outbox interface {
	Hand(*storage.Batch)
}

// turn is one round of a loop: what its sessions want of the store is handed
// over together at the end, so that it can become one commit. It belongs to the
// goroutine of the loop.
type turn struct {
	batches []*storage.Batch
}

// Hand implements outbox.
func (t *turn) Hand(b *storage.Batch) { t.batches = append(t.batches, b) }

// end hands over what the turn has collected.
func (t *turn) end(store storage.Store) {
	if len(t.batches) == 0 {
		return
	}
	store.Do(t.batches...)
	t.clear()
}

func (t *turn) clear() {
	clear(t.batches)
	t.batches = t.batches[:0]
}
