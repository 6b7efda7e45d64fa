package queue

import (
	"container/list"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// This file is the way of a wait, from the take that found nothing to the outcome:
//
//	Queue.Hints     before the take
//	Waiter.Wait     joins the waitlists, and sets the timer of the limit
//	                (round.go: a round takes a job for the wait, and ends it)
//	limitReached    the limit has come: a Tick of the store, then one last take
//	Waiter.Cancel   the caller is gone
//	Waiter.Outcome  what has become of it

// Waiter waits for jobs on behalf of one holder, one wait at a time. Its methods
// belong to one goroutine at a time, and none of them blocks.
type Waiter struct {
	queue  *Queue
	holder tube.Holder
	notify func()
	timer  *time.Timer // of the limit; nil before the first wait that has one
	wait   *wait       // the present one, or the last; guarded by waitlists.mu
}

// wait is one wait of a Waiter. All of it is guarded by waitlists.mu.
type wait struct {
	waiter  *Waiter
	tubes   []string
	limit   time.Time     // zero if it has none
	places  []place       // in the waitlists of tubes, in their order; nil once it has ended
	asFirst *list.Element // in waitlists.firsts; nil if it is the first in no waitlist

	called    bool      // it is in waitlists.called
	cancelled bool      // it ends with the round that serves it
	expired   time.Time // when its limit was noticed
	lastTake  bool      // the next take for it is the last one

	// Of the round that is taking a job for it.
	serving bool
	passing bool // it was called: if it gets a job, its waitlists are hinted
	ending  bool // it ends with this round
	got     bool // the round has brought it a job

	decided bool // it has ended, with this answer:
	answer  storage.Answer
}

// NewWaiter returns a Waiter for the holder. notify is called, on any goroutine,
// when a wait has an outcome; it must return quickly and hold no lock that is held
// during a call of the Waiter.
func (q *Queue) NewWaiter(holder tube.Holder, notify func()) *Waiter {
	return &Waiter{queue: q, holder: holder, notify: notify}
}

// Hints is how many hints have come so far. Whoever may have to wait reads it
// before the take: if it has grown when the wait begins, a job may have come in
// between. So no hint is lost.
func (q *Queue) WakeUps() uint64 { return q.lists.wakeUps.Load() }

// Wanted tells whoever may bring jobs from elsewhere that somebody would have one of these tubes.
// Wait does so by itself; doors call it for a take that has found nothing and does not wait.
func (q *Queue) Wanted(tubes []string) {
	if q.config.Wanted != nil {
		q.config.Wanted(tubes)
	}
}

// limitGrace is how much longer a wait is than was asked for. What the client has
// made due at the end of it must be due by then by the clock of the store, too,
// and the Redis engine rounds what is due up to whole milliseconds, by up to 2.
const limitGrace = 2 * time.Millisecond

// Wait begins to wait for a job of the tubes, which must not be changed until the
// wait has ended. hints is what Queue.Hints said before the take that has found
// nothing. The wait ends without a job soon after limit, unless that is
// storage.Forever.
func (w *Waiter) Wait(tubes []string, hints uint64, limit time.Duration) {
	next := &wait{waiter: w, tubes: tubes}
	limited := limit < storage.Forever
	if limited {
		limit += limitGrace
		next.limit = time.Now().Add(limit)
	}
	w.queue.lists.join(next, hints)
	w.queue.Wanted(tubes)
	switch {
	case !limited:
	case w.timer == nil:
		w.timer = time.AfterFunc(limit, w.limitReached)
	default:
		w.timer.Reset(limit)
	}
}

// join puts w at the end of the waitlists of its tubes. hints is their number before
// the take. If it has grown since, and w is the first in a waitlist, the next round
// serves w: the hint may have come when that waitlist was empty. In any other
// waitlist it has found a wait that is before w.
func (l *waitlists) join(w *wait, hints uint64) {
	places := make([]place, len(w.tubes))
	l.mu.Lock()
	defer l.mu.Unlock()
	w.waiter.wait = w
	l.add(w, places)
	if w.asFirst != nil && l.wakeUps.Load() != hints {
		l.call(w)
		l.callDispatcher()
	}
}

// Outcome returns what the wait has brought, once it has ended: a job, or
// NotFound.
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

// Cancel ends the wait and returns true; notify is not called then. If a round is
// taking a job for it, or it has ended, Cancel returns false: then there is or will
// be an outcome, and the job in it, if any, is the caller's to give back.
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
	case w.places == nil:
		return false
	}
	l.remove(w, w.called)
	l.callDispatcher()
	return true
}

func (w *Waiter) stopTimer() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// decide ends a wait with an answer. If pass is set, its waitlists are hinted. The
// lock is held; once it is released, the caller notifies the Waiter.
func (l *waitlists) decide(w *wait, answer storage.Answer, pass bool) {
	l.remove(w, pass)
	w.answer, w.decided = answer, true
}

// limits are the waits whose limit has come. What became due before the limit must
// still be handed out, and only the store knows whether something did. So such a wait
// first needs a Tick that began after its limit, then one last take. Only if that
// finds nothing does the wait end without a job.
//
// A store that fails does not hold up a wait for long. After TickPatience the last
// take is made without the Tick. If another round takes longer than RoundPatience,
// the wait ends without its last take.
type limits struct {
	awaitTick []*wait // need a Tick that has not begun
	inTick    []*wait // their Tick has begun, but not all that is due is done
	timer     *time.Timer
	armed     bool
}

const (
	// TickPatience is how long a wait whose limit has come waits for the Tick.
	TickPatience = 250 * time.Millisecond

	// RoundPatience is how long a round may take before it costs other waits their
	// last take.
	DispatchPatience = time.Second
)

// limitReached is called by the timer of the limit. It may come late, during the
// next wait.
func (w *Waiter) limitReached() {
	if w.queue.lists.expire(w) {
		w.queue.timer.due(0)
	}
}

// expire notes that the limit of the Waiter's wait has come, if it has. The caller
// then asks for a Tick.
func (l *waitlists) expire(waiter *Waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, now := waiter.wait, time.Now()
	if w.places == nil || w.limit.IsZero() || now.Before(w.limit) || !w.expired.IsZero() {
		return false
	}
	w.expired = now
	l.limits.awaitTick = append(l.limits.awaitTick, w)
	l.armPatience()
	return true
}

// tickBegins notes that the store's Tick is about to be called, and returns whether a
// wait needs it.
func (l *waitlists) tickBegins() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limits := &l.limits
	limits.inTick = append(limits.inTick, limits.awaitTick...)
	clear(limits.awaitTick)
	limits.awaitTick = limits.awaitTick[:0]
	return len(limits.inTick) > 0
}

// tickEnded notes that a Tick has ended. all says that everything that was due is
// done, as far as the store can do it.
func (l *waitlists) tickEnded(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limits := &l.limits
	if !all || len(limits.inTick) == 0 {
		return
	}
	for _, w := range limits.inTick {
		l.callLast(w)
	}
	clear(limits.inTick)
	limits.inTick = limits.inTick[:0]
	l.callDispatcher()
}

// callLast calls w for its last take. The lock is held.
func (l *waitlists) callLast(w *wait) {
	if w.places != nil {
		w.lastTake = true
		l.call(w)
	}
}

// armPatience sees to it that outOfPatience is called in time. The lock is held.
func (l *waitlists) armPatience() {
	limits := &l.limits
	switch {
	case limits.armed:
	case limits.timer == nil:
		limits.timer = time.AfterFunc(TickPatience, l.outOfPatience)
	default:
		limits.timer.Reset(TickPatience)
	}
	limits.armed = true
}

func (l *waitlists) stopPatience() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limits.timer != nil {
		l.limits.timer.Stop()
	}
}

// outOfPatience goes on with waits whose limit has come although the store hangs.
func (l *waitlists) outOfPatience() {
	l.mu.Lock()
	limits, now := &l.limits, time.Now()
	limits.armed = false
	limits.awaitTick = l.callOverdue(limits.awaitTick, now)
	limits.inTick = l.callOverdue(limits.inTick, now)
	var decided []*wait
	if l.dispatching && now.Sub(l.dispatchingSince) >= DispatchPatience {
		decided = l.endUnserved()
	}
	if len(limits.awaitTick) > 0 || len(limits.inTick) > 0 || l.lastTakes() > 0 {
		l.armPatience()
	}
	l.callDispatcher()
	l.mu.Unlock()
	for _, w := range decided {
		w.waiter.notify()
	}
}

// callOverdue calls the waits that have needed a Tick for too long, and returns the
// others. waits are in the order in which their limits came. The lock is held.
func (l *waitlists) callOverdue(waits []*wait, now time.Time) []*wait {
	for i, w := range waits {
		if now.Sub(w.expired) < TickPatience {
			return waits[i:]
		}
		l.callLast(w)
	}
	return nil
}

// lastTakes is how many waits are called for their last take. The lock is held.
func (l *waitlists) lastTakes() (n int) {
	for _, w := range l.called {
		if w.lastTake {
			n++
		}
	}
	return n
}

// endUnserved ends the waits that are called for their last take, without it. The
// lock is held.
func (l *waitlists) endUnserved() (decided []*wait) {
	kept := l.called[:0]
	for _, w := range l.called {
		switch {
		case w.places == nil:
		case w.lastTake && !w.serving:
			l.decide(w, storage.Answer{NotFound: true}, true)
			decided = append(decided, w)
		default:
			kept = append(kept, w)
		}
	}
	clear(l.called[len(kept):])
	l.called = kept
	return decided
}
