package embedded

import "redstalk/tube"

// CountHeld implements storage.HolderStore.
func (e *Engine) CountHeld(holders []tube.Holder) (counts []int, ok bool) {
	counts = make([]int, len(holders))
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, h := range holders {
		counts[i] = e.machine.Held(h)
	}
	return counts, true
}
