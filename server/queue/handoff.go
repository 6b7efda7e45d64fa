package queue

import "redstalk/storage"

// In a direct hand-off, a dispatch batch goes to the store in the same call as the puts
// whose jobs it is for, right behind them, instead of after the store's wake-up. So a wait
// ends when the put is answered, and not a call later. Direct hand-off is used only for
// stores that several servers share: those are other processes, and calls take long. With
// other stores it was not faster.
//
// Direct hand-off is optional: the store sends a wake-up for every job that such a dispatch
// batch does not take.

// maxHandOffTubes limits the tubes that a direct hand-off searches, so that the puts do not
// wait for it.
const maxHandOffTubes = 100

// HandOff returns a dispatch batch for those who wait for the jobs that the batches are
// about to put, or nil. The caller submits it behind the batches, in the same call.
func (q *Queue) HandOff(batches []*storage.Batch) *storage.Batch {
	l := &q.lists
	if !q.handsOff || l.waiters.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dispatching || len(l.woken) > 0 || len(l.scheduled) > 0 {
		return nil // these come first
	}
	for _, b := range batches {
		l.countPuts(b.Ops)
	}
	r := l.pickHandOffs()
	if len(r.waits) == 0 {
		return nil
	}
	return l.start(r)
}

// withHandOffs returns the batch, followed by what HandOff returns for it.
func (q *Queue) withHandOffs(b *storage.Batch) []*storage.Batch {
	batches := []*storage.Batch{b}
	if handOff := q.HandOff(batches); handOff != nil {
		batches = append(batches, handOff)
	}
	return batches
}

// countPuts counts the puts into tubes for which somebody waits. Puts with tags are not
// counted, since they may create no job. The lock is held.
func (l *waitlists) countPuts(ops []storage.Op) {
	for i := range ops {
		if op := &ops[i]; op.Kind == storage.Put && op.Delay == 0 && op.Args == nil && l.byTube[op.Tube] != nil {
			l.handOffs[op.Tube]++
		}
	}
}

// pickHandOffs chooses the waits of a direct hand-off: the first of each waitlist, one more
// than there are puts. If that one gets no job, the store has registered the wait, and sends
// a wake-up for the next job. The lock is held.
func (l *waitlists) pickHandOffs() *dispatchBatch {
	r := &dispatchBatch{handOffs: true}
	for name, puts := range l.handOffs {
		r.pickFirst(name, l.byTube[name], min(puts+1, maxServed))
	}
	clear(l.handOffs)
	return r
}
