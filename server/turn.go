package server

import "redstalk/storage"

// turn is one round of a loop: what its sessions want of the store is handed
// over together at the end, so that it can become one commit.
type turn struct {
	batches []*storage.Batch
}

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
