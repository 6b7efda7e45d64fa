package queue

import "redstalk/storage"

// A round may be foreseen: it goes to the store behind the puts whose jobs it is for,
// with the same call, and not when the store has hinted at them. So a wait ends when the
// put is answered, and not a call later. That is for stores that several servers share:
// they are other processes, and calls take long. Where they do not, it brought nothing.
//
// No hint need be foreseen: the store hints at what a foreseen round does not take.

// maxForeseenTubes bounds the tubes that a foreseen round searches: the puts should not
// wait for that.
const maxHandOffTubes = 100

// Foresee returns a round for those who wait for the jobs that the batches are about to
// put, or nil. The caller hands it to the store behind the batches, with the same call.
func (q *Queue) HandOff(batches []*storage.Batch) *storage.Batch {
	l := &q.lists
	if !q.foresees || l.waiters.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dispatching || len(l.hinted) > 0 || len(l.called) > 0 {
		return nil // these come first
	}
	for _, b := range batches {
		l.handOff(b.Ops)
	}
	r := l.pickHandOffs()
	if len(r.waits) == 0 {
		return nil
	}
	return l.start(r)
}

// withForeseen returns the batch, and behind it what Foresee returns for it.
func (q *Queue) withHandOffs(b *storage.Batch) []*storage.Batch {
	batches := []*storage.Batch{b}
	if round := q.HandOff(batches); round != nil {
		batches = append(batches, round)
	}
	return batches
}

// foresee counts the puts into tubes for which somebody waits, but for those with tags,
// which may make no job. The lock is held.
func (l *waitlists) handOff(ops []storage.Op) {
	for i := range ops {
		if op := &ops[i]; op.Kind == storage.Put && op.Delay == 0 && op.Args == nil && l.byTube[op.Tube] != nil {
			l.handOffs[op.Tube]++
		}
	}
}

// pickForeseen chooses the waits of a foreseen round: the first of each waitlist, one more
// than there are puts. If that one gets no job, who follows is told of the next one. The
// lock is held.
func (l *waitlists) pickHandOffs() *dispatchBatch {
	r := &dispatchBatch{handOffs: true}
	for name, puts := range l.handOffs {
		r.pickFirst(name, l.byTube[name], min(puts+1, maxServed))
	}
	clear(l.handOffs)
	return r
}
