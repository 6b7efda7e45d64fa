package queue

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// waitlists holds all waits of a queue, in one waitlist for each tube, and what the next
// dispatches must do. A wait is in the waitlists of all its tubes.
type waitlists struct {
	wakeUps atomic.Uint64 // wake-ups from the store so far
	waiters atomic.Int64  // waits in waitlists

	wakeDispatcher  chan struct{} // capacity 1: there is something to dispatch
	dispatcherEnded chan struct{}

	mu          sync.Mutex // guards everything below, and all waits
	byTube      map[string]*waitlist
	firsts      list.List // of *wait: each is the first in some waitlist; see retryFirsts
	retryBudget int       // tubes that retryFirsts may still search

	// What the next dispatch is for.
	woken     map[string]int // tubes that may have jobs; how many of each waitlist to serve
	scheduled []*wait        // to be served with or without wake-ups, in this order

	dispatching      bool      // a dispatch is under way
	dispatchingSince time.Time // when it began
	loopsAwake       int       // loops that ask for a dispatch before they sleep

	limits limits
}

// waitlist is the list of the waits for a job of one tube, in order of arrival.
type waitlist struct {
	first, last *waitlistEntry
	n           int
}

// waitlistEntry is the entry of a wait in one waitlist.
type waitlistEntry struct {
	wait       *wait
	list       *waitlist
	prev, next *waitlistEntry
}

func (l *waitlists) init() {
	l.wakeDispatcher, l.dispatcherEnded = make(chan struct{}, 1), make(chan struct{})
	l.byTube, l.woken = make(map[string]*waitlist), make(map[string]int)
}

// waiting returns how many wait for a job of the tube.
func (l *waitlists) waiting(tube string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if list := l.byTube[tube]; list != nil {
		return list.n
	}
	return 0
}

// add puts w at the end of the waitlists of its tubes. It uses entries, one for each tube.
// The lock is held.
func (l *waitlists) add(w *wait, entries []waitlistEntry) {
	l.waiters.Add(1)
	w.entries = entries
	var spare []waitlist // allocated together, as a wait may need very many
	for i, name := range w.tubes {
		list := l.byTube[name]
		if list == nil {
			if len(spare) == 0 {
				spare = make([]waitlist, min(len(w.tubes)-i, 32))
			}
			list, spare = &spare[0], spare[1:]
			l.byTube[name] = list
		}
		entries[i] = waitlistEntry{wait: w, list: list}
		l.link(&entries[i])
	}
}

// remove takes w out of its waitlists. If pass is set, the waitlists are woken, so that the
// next waits in them are served. The lock is held.
func (l *waitlists) remove(w *wait, pass bool) {
	for i := range w.entries {
		p := &w.entries[i]
		if l.unlink(p); p.list.n == 0 {
			delete(l.byTube, w.tubes[i])
		} else if pass {
			l.wakeUp(w.tubes[i], 1)
		}
	}
	if w.asFirst != nil {
		l.firsts.Remove(w.asFirst)
	}
	w.entries, w.asFirst = nil, nil
	l.waiters.Add(-1)
}

// link puts p at the end of its waitlist. The lock is held.
func (l *waitlists) link(p *waitlistEntry) {
	list := p.list
	list.n++
	if p.prev, list.last = list.last, p; p.prev != nil {
		p.prev.next = p
		return
	}
	list.first = p
	l.addFirst(p.wait)
}

// unlink takes p out of its waitlist. The lock is held.
func (l *waitlists) unlink(p *waitlistEntry) {
	list := p.list
	list.n--
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		list.last = p.prev
	}
	if p.prev != nil {
		p.prev.next = p.next
		return
	}
	if list.first = p.next; list.first != nil {
		l.addFirst(list.first.wait)
	}
}

// addFirst records that w is the first in a waitlist, which it stays until it is removed.
// The lock is held.
func (l *waitlists) addFirst(w *wait) {
	if w.asFirst == nil {
		w.asFirst = l.firsts.PushBack(w)
	}
}

const (
	// RetryEvery is how often jobs are taken without a wake-up, in case one was lost.
	RetryEvery = time.Second

	// MaxRetried limits the tubes that are searched for that each time.
	MaxRetried = 2000
)

// retryFirsts schedules waits that are the first in a waitlist, in case a wake-up was lost:
// as many as MaxRetried allows, and the next time the following ones. A wait for more tubes
// than that uses up the allowance of several times.
func (l *waitlists) retryFirsts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retryBudget = min(l.retryBudget+MaxRetried, MaxRetried)
	for n := l.firsts.Len(); n > 0 && l.retryBudget > 0; n-- {
		e := l.firsts.Front()
		l.firsts.MoveToBack(e)
		w := e.Value.(*wait)
		l.retryBudget -= len(w.tubes)
		l.schedule(w)
	}
	l.notifyDispatcher()
}
