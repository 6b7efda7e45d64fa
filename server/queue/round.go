package queue

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Jobs are taken for waits in rounds: one batch of takes each. When the store hints
// that a tube has a job, the next round takes one for the first in the tube's
// waitlist, and for as many as there were hints. While that works, each further round takes twice as many. One round is
// under way at a time.
//
// As long as a loop of package server is awake, it carries rounds out as part of its
// turns, because waking another thread takes longer than all the rest. If all loops
// sleep, the usher, a goroutine, does it.

const (
	// maxServed bounds how many of one waitlist are served in a round.
	maxServed = 64

	// MaxTakes and MaxTubes bound a round: the waits that it serves, and the tubes
	// that its takes search. The last wait that it serves may be for any number of
	// tubes.
	MaxTakes = 512
	MaxTubes = 20_000
)

// ready takes a hint of the store that the tube has a job. It returns whether
// anybody waits for one.
func (l *waitlists) ready(tube string) bool {
	l.wakeUps.Add(1) // before looking for waiters, see join
	if l.waiters.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ok := l.wakeUp(tube, min(l.hinted[tube]+1, maxServed)) // it may be about another job
	l.callDispatcher()
	return ok
}

// hint notes that the next round is to serve so many of the tube's waitlist. It
// returns false if there is no such waitlist. The lock is held.
func (l *waitlists) wakeUp(tube string, many int) bool {
	if l.byTube[tube] == nil {
		return false
	}
	l.hinted[tube] = max(l.hinted[tube], many)
	return true
}

// call notes that one of the next rounds is to serve w, whatever the hints say. The
// lock is held.
func (l *waitlists) call(w *wait) {
	if !w.called {
		w.called = true
		l.called = append(l.called, w)
	}
}

// callUsher wakes the usher if there is a round to carry out, and no loop is awake to
// do it. The lock is held.
func (l *waitlists) callDispatcher() {
	if l.dispatching || l.loopsAwake > 0 || len(l.hinted) == 0 && len(l.called) == 0 {
		return
	}
	select {
	case l.wakeDispatcher <- struct{}{}:
	default:
	}
}

// usher carries out rounds that no loop does, until the queue is closed.
func (q *Queue) dispatcher() {
	defer close(q.lists.dispatcherEnded)
	for {
		select {
		case <-q.closing:
			return
		case <-q.lists.wakeDispatcher:
		}
		for b := q.NextDispatch(); b != nil; b = q.NextDispatch() {
			storage.DoBatch(q.store, b)
		}
	}
}

// LoopAwake notes that a loop is awake: from now on it calls NextRound now and
// then, and LoopSleeps before it sleeps.
func (q *Queue) LoopAwake() {
	q.lists.mu.Lock()
	q.lists.loopsAwake++
	q.lists.mu.Unlock()
}

// LoopsAwake is how many loops count as awake.
func (q *Queue) LoopsAwake() int {
	q.lists.mu.Lock()
	defer q.lists.mu.Unlock()
	return q.lists.loopsAwake
}

// LoopSleeps is called by a loop that is about to sleep. It returns a round that the
// loop has to carry out first, or nil: then the loop does not count as awake any
// more.
func (q *Queue) LoopSleeps() *storage.Batch {
	l := &q.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.startDispatch()
	if b == nil {
		l.loopsAwake--
		l.callDispatcher() // for what is to be done after the round that is under way
	}
	return b
}

// NextRound returns a round that the caller has to carry out. It returns nil if one
// is under way, or if there is nothing to serve.
func (q *Queue) NextDispatch() *storage.Batch {
	l := &q.lists
	if l.waiters.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.startDispatch()
}

// Waiters is how many wait for a job.
func (q *Queue) Waiters() int64 { return q.lists.waiters.Load() }

// startRound starts a round; nil if one is under way, or there is nothing to serve.
// The lock is held.
func (l *waitlists) startDispatch() *storage.Batch {
	if l.dispatching || len(l.hinted) == 0 && len(l.called) == 0 {
		return nil
	}
	r := l.pick()
	if len(r.waits) == 0 {
		return nil
	}
	return l.start(r)
}

// start makes a batch of a round, which is under way from now on. The lock is held.
func (l *waitlists) start(r *dispatchBatch) *storage.Batch {
	l.dispatching, l.dispatchingSince = true, time.Now()
	// InTurn: a client may have asked how many wait, and then released the job. Its
	// reply must not show fewer waiters because this round has ended first.
	return &storage.Batch{Ops: r.takes, Ordered: true, Done: func() {
		for _, w := range l.endDispatch(r) {
			w.waiter.notify()
		}
	}}
}

// round is one batch of takes, and the waits that they are for.
type dispatchBatch struct {
	waits      []*wait
	takes      []storage.Op
	tubes      int // searched by all takes together
	lists      []served
	considered []*wait // of all lists, one list after the other
	handOffs   bool    // see foresee.go
}

// served is a hinted waitlist in a round.
type served struct {
	tube       string
	many       int // waits that were to be served
	considered int // how many of round.considered are of this waitlist
}

// full tells whether the n-th part of a round is used up.
func (r *dispatchBatch) full(n int) bool { return n*len(r.takes) >= MaxTakes || n*r.tubes >= MaxTubes }

// forHints: hinted waitlists get up to one half of a round, so that there is always
// room for called waits.
const forWakeUps = 2

// hasRoomFor tells whether the round may serve w, of a hinted waitlist. Nobody is foreseen
// to get a lease.
func (r *dispatchBatch) hasRoomFor(w *wait) bool {
	if r.handOffs {
		return w.waiter.holder != tube.LeaseHolder && r.tubes+len(w.tubes) <= maxHandOffTubes
	}
	return !r.full(forWakeUps)
}

// take makes the round serve w. waits says that w goes on waiting if there is no
// job.
func (r *dispatchBatch) take(w *wait, waits bool) {
	w.serving = true
	r.waits = append(r.waits, w)
	r.tubes += len(w.tubes)
	take := storage.Op{Kind: storage.Take, Holder: w.waiter.holder, Tubes: w.tubes, Wait: waits, HandOff: r.handOffs}
	r.takes = append(r.takes, take)
}

// pick chooses the waits of the next round: the first of each hinted waitlist, then
// the called ones. The lock is held.
func (l *waitlists) pick() *dispatchBatch {
	r := &dispatchBatch{}
	for name, many := range l.hinted {
		if r.full(forWakeUps) {
			break
		}
		delete(l.hinted, name)
		if list := l.byTube[name]; list != nil {
			r.pickFirst(name, list, many)
		}
	}
	n := 0
	for n < len(l.called) && !r.full(1) {
		w := l.called[n]
		n++
		if w.places == nil {
			continue // it has ended meanwhile
		}
		w.called, w.passing, w.ending = false, true, w.lastTake
		if !w.serving {
			r.take(w, !w.ending)
		}
	}
	clear(l.called[:n])
	if l.called = l.called[n:]; len(l.called) == 0 {
		l.called = nil
	}
	return r
}

// pickFirst considers the first waits of a waitlist. One that the round serves
// already for another tube counts as well: its take searches this tube, too.
func (r *dispatchBatch) pickFirst(tube string, list *waitlist, many int) {
	from := len(r.considered)
	for p := list.first; p != nil && many > len(r.considered)-from && r.hasRoomFor(p.wait); p = p.next {
		if !p.wait.serving {
			r.take(p.wait, true)
		}
		r.considered = append(r.considered, p.wait)
	}
	r.lists = append(r.lists, served{tube, many, len(r.considered) - from})
}

// endRound ends a round: it hands out what was taken. A waitlist is hinted again if
// all of its waits that were considered got a job, as there may be more jobs. endRound
// returns the waits that have ended; the caller notifies their Waiters.
func (l *waitlists) endDispatch(r *dispatchBatch) (decided []*wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range r.waits {
		answer := r.takes[i].Answer
		w.got = answer.Err == nil && !answer.NotFound
		if answer.Err != nil {
			answer = storage.Answer{NotFound: true}
		}
		if w.got || w.cancelled || w.ending {
			l.decide(w, answer, w.got && w.passing)
			decided = append(decided, w)
		}
		w.serving, w.passing, w.ending = false, false, false
	}
	if r.handOffs && len(decided) > 0 {
		l.wakeUps.Add(1) // of which the store has spared us
	}
	considered := r.considered
	for _, its := range r.lists {
		if allGot(considered[:its.considered]) {
			l.wakeUp(its.tube, min(2*its.many, maxServed))
		}
		considered = considered[its.considered:]
	}
	l.dispatching = false
	l.callDispatcher()
	return decided
}

func allGot(waits []*wait) bool {
	for _, w := range waits {
		if !w.got {
			return false
		}
	}
	return true
}
