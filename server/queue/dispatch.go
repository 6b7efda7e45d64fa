package queue

import (
	"time"

	"redstalk/storage"
)

// Jobs are taken for waits in dispatches: store batches that consist of takes. After a
// wake-up for a tube, the next dispatch takes a job for the first in the tube's
// waitlist, and for as many more as there were wake-ups. While all takes for a waitlist find
// a job, each further dispatch takes twice as many. Only one dispatch is under
// way at a time.
//
// As long as a loop of package server is awake, it carries out the dispatches as part
// of its loop iterations, because waking another thread takes longer than everything else.
// If all loops sleep, the dispatcher, a goroutine, does it.

const (
	// maxServed limits how many waits of one waitlist a dispatch serves.
	maxServed = 64

	// MaxTakes and MaxTubes limit a dispatch: the waits that it serves, and the tubes that
	// its takes search. The last wait that it serves may be for any number of tubes.
	MaxTakes = 512
	MaxTubes = 20_000
)

// jobReady handles a wake-up from the store: the tube has a job. It reports whether anybody
// waits for one.
func (l *waitlists) jobReady(tube string) bool {
	l.wakeUps.Add(1) // before looking for waiters, see join
	if l.waiters.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ok := l.wakeUp(tube, min(l.woken[tube]+1, maxServed)) // the wake-up may be about another job
	l.notifyDispatcher()
	return ok
}

// wakeUp makes the next dispatch serve at least count waits of the tube's waitlist. It
// returns false if there is no such waitlist. The lock is held.
func (l *waitlists) wakeUp(tube string, count int) bool {
	if l.byTube[tube] == nil {
		return false
	}
	l.woken[tube] = max(l.woken[tube], count)
	return true
}

// schedule makes one of the next dispatches serve w, with or without a wake-up. The
// lock is held.
func (l *waitlists) schedule(w *wait) {
	if !w.scheduled {
		w.scheduled = true
		l.scheduled = append(l.scheduled, w)
	}
}

// notifyDispatcher wakes the dispatcher if there is something to dispatch and no loop is
// awake to do it. The lock is held.
func (l *waitlists) notifyDispatcher() {
	if l.dispatching || l.loopsAwake > 0 || len(l.woken) == 0 && len(l.scheduled) == 0 {
		return
	}
	select {
	case l.wakeDispatcher <- struct{}{}:
	default:
	}
}

// dispatcher carries out the dispatches that no loop does, until the queue is closed.
func (q *Queue) dispatcher() {
	defer close(q.lists.dispatcherEnded)
	for {
		select {
		case <-q.closing:
			return
		case <-q.lists.wakeDispatcher:
		}
		for b := q.NextDispatch(); b != nil; b = q.NextDispatch() {
			storage.DoBatch(q.through, b)
		}
	}
}

// LoopAwake records that a loop is awake: from now on it calls NextDispatch now and then,
// and LoopSleeps before it sleeps.
func (q *Queue) LoopAwake() {
	q.lists.mu.Lock()
	q.lists.loopsAwake++
	q.lists.mu.Unlock()
}

// LoopsAwake returns how many loops count as awake.
func (q *Queue) LoopsAwake() int {
	q.lists.mu.Lock()
	defer q.lists.mu.Unlock()
	return q.lists.loopsAwake
}

// LoopSleeps is called by a loop that is about to sleep. It returns a dispatch that
// the loop must carry out first, or nil; after nil the loop no longer counts as awake.
func (q *Queue) LoopSleeps() *storage.Batch {
	l := &q.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.startDispatch()
	if b == nil {
		l.loopsAwake--
		l.notifyDispatcher() // for what remains after the dispatch that is under way
	}
	return b
}

// NextDispatch returns a dispatch that the caller must carry out. It returns nil if
// one is under way, or if there is nothing to serve.
func (q *Queue) NextDispatch() *storage.Batch {
	l := &q.lists
	if l.waiters.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.startDispatch()
}

// Waiters returns how many wait for a job.
func (q *Queue) Waiters() int64 { return q.lists.waiters.Load() }

// startDispatch starts a dispatch. It returns nil if one is under way, or if there is
// nothing to serve. The lock is held.
func (l *waitlists) startDispatch() *storage.Batch {
	if l.dispatching || len(l.woken) == 0 && len(l.scheduled) == 0 {
		return nil
	}
	r := l.pick()
	if len(r.waits) == 0 {
		return nil
	}
	return l.start(r)
}

// start returns r as a batch for the store; from now on r is under way. The lock is held.
func (l *waitlists) start(r *dispatch) *storage.Batch {
	l.dispatching, l.dispatchingSince = true, time.Now()
	// Ordered: a client may have asked how many wait, and then released the job. Its reply must
	// not show fewer waiters because this dispatch has ended first.
	return &storage.Batch{Ops: r.takes, Ordered: true, Done: func() {
		for _, w := range l.endDispatch(r) {
			w.waiter.notify()
		}
	}}
}

// dispatch is a batch of takes and the waits that they are for.
type dispatch struct {
	waits      []*wait
	takes      []storage.Op
	tubes      int // searched by all takes together
	lists      []served
	considered []*wait // of all lists, one list after the other
}

// served describes a woken waitlist in a dispatch.
type served struct {
	tube       string
	want       int // waits that were to be served
	considered int // how many of dispatch.considered are of this waitlist
}

// full reports whether the n-th part of r's limits is used up.
func (r *dispatch) full(n int) bool { return n*len(r.takes) >= MaxTakes || n*r.tubes >= MaxTubes }

// forWakeUps: woken waitlists get up to one half of a dispatch, so that there is
// always room for scheduled waits.
const forWakeUps = 2

// addTake makes r serve w. waits says that w goes on waiting if there is no job.
func (r *dispatch) addTake(w *wait, waits bool) {
	w.serving = true
	r.waits = append(r.waits, w)
	r.tubes += len(w.tubes)
	take := storage.Op{Kind: storage.Take, Holder: w.waiter.holder, Tubes: w.tubes, First: w.first, Wait: waits, Info: w.info}
	r.takes = append(r.takes, take)
}

// pick chooses the waits of the next dispatch: the first of each woken waitlist, then
// the scheduled ones. The lock is held.
func (l *waitlists) pick() *dispatch {
	r := &dispatch{}
	for name, count := range l.woken {
		if r.full(forWakeUps) {
			break
		}
		delete(l.woken, name)
		if list := l.byTube[name]; list != nil {
			r.pickFirst(name, list, count)
		}
	}
	n := 0
	for n < len(l.scheduled) && !r.full(1) {
		w := l.scheduled[n]
		n++
		if w.entries == nil {
			continue // it has ended in the meantime
		}
		w.scheduled, w.passesOn, w.ending = false, true, w.lastTake
		if !w.serving {
			r.addTake(w, !w.ending)
		}
	}
	clear(l.scheduled[:n])
	if l.scheduled = l.scheduled[n:]; len(l.scheduled) == 0 {
		l.scheduled = nil
	}
	return r
}

// pickFirst considers the first waits of a waitlist. A wait that r already serves for
// another tube counts too: its take also searches this tube.
func (r *dispatch) pickFirst(tube string, list *waitlist, count int) {
	from := len(r.considered)
	for p := list.first; p != nil && count > len(r.considered)-from && !r.full(forWakeUps); p = p.next {
		if !p.wait.serving {
			r.addTake(p.wait, true)
		}
		r.considered = append(r.considered, p.wait)
	}
	r.lists = append(r.lists, served{tube, count, len(r.considered) - from})
}

// endDispatch ends a dispatch and hands out the jobs. A waitlist is woken again if all
// of its considered waits got a job, since there may be more jobs. endDispatch returns the
// waits that have ended; the caller notifies their Waiters.
func (l *waitlists) endDispatch(r *dispatch) (decided []*wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range r.waits {
		answer := r.takes[i].Answer
		w.got = answer.Err == nil && !answer.NotFound
		if answer.Err != nil {
			answer = storage.Answer{NotFound: true}
		}
		if w.got || w.cancelled || w.ending {
			l.decide(w, answer, w.got && w.passesOn)
			decided = append(decided, w)
		}
		w.serving, w.passesOn, w.ending = false, false, false
	}
	considered := r.considered
	for _, part := range r.lists {
		if allGot(considered[:part.considered]) {
			l.wakeUp(part.tube, min(2*part.want, maxServed))
		}
		considered = considered[part.considered:]
	}
	l.dispatching = false
	l.notifyDispatcher()
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
