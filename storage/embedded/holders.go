package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// HeldBy implements storage.HolderStore.
func (e *Engine) HeldBy(holders []tube.Holder, first int) []storage.Held {
	all := make([]storage.Held, len(holders))
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, h := range holders {
		all[i] = storage.Held{Count: e.machine.Held(h), First: e.machine.FirstHeld(h, first)}
	}
	return all
}
