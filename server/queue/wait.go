package queue

import (
	"container/list"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// This file is the life of a wait, from the take that found nothing to the outcome:
//
//	Queue.WakeUps   read before the take
//	Waiter.Wait     joins the waitlists, and sets the timer of the limit
//	                (dispatch.go: a dispatch takes a job for the wait, and ends it)
//	limitReached    waitlimit.go, at the limit: a Tick of the store, then one last take
//	Waiter.Cancel   the caller has left
//	Waiter.Outcome  the job, or none

// Waiter waits for jobs on behalf of one holder, one wait at a time. Its methods must not be
// called concurrently, and none of them blocks.
type Waiter struct {
	queue  *Queue
	holder tube.Holder
	notify func()
	timer  *time.Timer // of the limit; nil before the first wait that has one
	wait   *wait       // the current one, or the last; guarded by waitlists.mu
}

// wait is one wait of a Waiter. All of it is guarded by waitlists.mu.
type wait struct {
	waiter  *Waiter
	tubes   []string
	first   bool            // of the first tube that has a job: storage.Op.First
	info    bool            // storage.Op.Info
	limit   time.Time       // zero if it has none
	entries []waitlistEntry // in the waitlists of tubes, in that order; nil once the wait has ended
	asFirst *list.Element   // in waitlists.firsts; nil if it is the first in no waitlist

	scheduled bool      // it is in waitlists.scheduled
	cancelled bool      // it ends with the dispatch that serves it
	expired   time.Time // when it was noticed that the limit was reached
	lastTake  bool      // the next take for it is the last one

	// About the dispatch that is taking a job for the wait:
	serving  bool
	passesOn bool // it was scheduled: if it gets a job, its waitlists are woken
	ending   bool // it ends with this dispatch
	got      bool // the dispatch has found a job for it

	decided bool // it has ended, with this answer:
	answer  storage.Answer
}

// NewWaiter returns a Waiter for the holder. notify is called, on any goroutine, when a wait
// has an outcome. It must return quickly, and must not acquire a lock that is held during a
// call of the Waiter.
func (q *Queue) NewWaiter(holder tube.Holder, notify func()) *Waiter {
	return &Waiter{queue: q, holder: holder, notify: notify}
}

// WakeUps returns the number of wake-ups so far. A caller that may have to wait reads it
// before the take: if it has grown when the wait begins, a job may have arrived in between.
// So no wake-up is lost.
func (q *Queue) WakeUps() uint64 { return q.lists.wakeUps.Load() }

// Wanted calls Config.Wanted: somebody wants a job of one of these tubes. Wait does so by
// itself; listeners call it for a take that has found nothing and does not wait.
func (q *Queue) Wanted(tubes []string) {
	if q.config.Wanted != nil {
		q.config.Wanted(tubes)
	}
}

// limitGrace is added to the limit of each wait. What the client has made due at the end of
// the wait must be due by then by the clock of the store, too, and the Redis engine rounds
// due times up to whole milliseconds, by up to 2.
const limitGrace = 2 * time.Millisecond

// Wait begins to wait for the job of a take that found nothing, whose tubes must not be changed
// until the wait has ended. wakeUps is what Queue.WakeUps returned before the take. The wait
// ends without a job soon after limit, unless that is storage.Forever.
func (w *Waiter) Wait(take *storage.Op, wakeUps uint64, limit time.Duration) {
	next := &wait{waiter: w, tubes: take.Tubes, first: take.First, info: take.Info}
	limited := limit < storage.Forever
	if limited {
		limit += limitGrace
		next.limit = time.Now().Add(limit)
	}
	w.queue.lists.join(next, wakeUps)
	w.queue.Wanted(take.Tubes)
	switch {
	case !limited:
	case w.timer == nil:
		w.timer = time.AfterFunc(limit, w.limitReached)
	default:
		w.timer.Reset(limit)
	}
}

// join puts w at the end of the waitlists of its tubes. wakeUps is the number of wake-ups
// before the take. If it has grown since, and w is the first in a waitlist, the next
// dispatch serves w: the wake-up may have come while that waitlist was empty. In any
// other waitlist the wake-up has found a wait that is before w.
func (l *waitlists) join(w *wait, wakeUps uint64) {
	entries := make([]waitlistEntry, len(w.tubes))
	l.mu.Lock()
	defer l.mu.Unlock()
	w.waiter.wait = w
	l.add(w, entries)
	if w.asFirst != nil && l.wakeUps.Load() != wakeUps {
		l.schedule(w)
		l.notifyDispatcher()
	}
}

// Outcome returns the outcome of a wait that has ended: a job, or NotFound.
func (w *Waiter) Outcome() (answer storage.Answer, ended bool) {
	l := &w.queue.lists
	l.mu.Lock()
	answer, ended = w.wait.answer, w.wait.decided
	l.mu.Unlock()
	if ended {
		w.stopTimer()
	}
	return answer, ended
}

// Cancel ends the wait and returns true; notify is not called then. If a dispatch is
// taking a job for the wait, or the wait has ended, Cancel returns false: then there is or
// will be an outcome, and if it has a job, the caller must give it back.
func (w *Waiter) Cancel() bool {
	if !w.queue.lists.cancel(w) {
		return false
	}
	w.stopTimer()
	return true
}

func (l *waitlists) cancel(waiter *Waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := waiter.wait
	switch {
	case w.serving:
		w.cancelled = true
		return false
	case w.entries == nil:
		return false
	}
	l.remove(w, w.scheduled)
	l.notifyDispatcher()
	return true
}

func (w *Waiter) stopTimer() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// decide ends a wait with an answer. If pass is set, its waitlists are woken. The lock is
// held; once it is released, the caller notifies the Waiter.
func (l *waitlists) decide(w *wait, answer storage.Answer, pass bool) {
	l.remove(w, pass)
	w.answer, w.decided = answer, true
}
