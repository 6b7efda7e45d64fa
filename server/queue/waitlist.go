package queue

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// waitlists are all waits of a queue, in a waitlist for each tube, and what the next
// rounds are to do. A wait stands in the waitlists of all its tubes.
type waitlists struct {
	wakeUps atomic.Uint64 // hints that have come from the store so far
	waiters atomic.Int64  // waits that stand in waitlists

	wakeDispatcher  chan struct{} // capacity 1: there is a round to be carried out
	dispatcherEnded chan struct{}

	mu     sync.Mutex // guards everything below, and all waits
	byTube map[string]*waitlist
	firsts list.List // of *wait: each is the first in some waitlist; see retryFirsts
	credit int       // tubes that retryFirsts may still have searched

	// What the next round is for.
	hinted map[string]int // tubes that may have jobs; how many of each waitlist to serve
	called []*wait        // to be served whatever the hints say, in this order

	handOffs map[string]int // how many jobs are about to be put; empty but in Foresee

	dispatching      bool      // a round is under way
	dispatchingSince time.Time // when it began
	loopsAwake       int       // loops that ask for a round before they sleep

	limits limits
}

// waitlist is the waits for a job of one tube, by arrival.
type waitlist struct {
	first, last *place
	n           int
}

// place is that of a wait in one waitlist.
type place struct {
	wait       *wait
	list       *waitlist
	prev, next *place
}

func (l *waitlists) init() {
	l.wakeDispatcher, l.dispatcherEnded = make(chan struct{}, 1), make(chan struct{})
	l.byTube, l.hinted, l.handOffs = make(map[string]*waitlist), make(map[string]int), make(map[string]int)
}

// waiting is how many wait for a job of the tube.
func (l *waitlists) waiting(tube string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if list := l.byTube[tube]; list != nil {
		return list.n
	}
	return 0
}

// add puts w at the end of the waitlists of its tubes. places is room for as many.
// The lock is held.
func (l *waitlists) add(w *wait, places []place) {
	l.waiters.Add(1)
	w.places = places
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
		places[i] = place{wait: w, list: list}
		l.link(&places[i])
	}
}

// remove takes w out of its waitlists. If pass is set, the waitlists are hinted, so
// that the next in them are served. The lock is held.
func (l *waitlists) remove(w *wait, pass bool) {
	for i := range w.places {
		p := &w.places[i]
		if l.unlink(p); p.list.n == 0 {
			delete(l.byTube, w.tubes[i])
		} else if pass {
			l.wakeUp(w.tubes[i], 1)
		}
	}
	if w.asFirst != nil {
		l.firsts.Remove(w.asFirst)
	}
	w.places, w.asFirst = nil, nil
	l.waiters.Add(-1)
}

// link puts p at the end of its waitlist. The lock is held.
func (l *waitlists) link(p *place) {
	list := p.list
	list.n++
	if p.prev, list.last = list.last, p; p.prev != nil {
		p.prev.next = p
		return
	}
	list.first = p
	l.noteFirst(p.wait)
}

// unlink takes p out of its waitlist. The lock is held.
func (l *waitlists) unlink(p *place) {
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
		l.noteFirst(list.first.wait)
	}
}

// noteFirst notes that w is the first in a waitlist. It is until it is removed.
// The lock is held.
func (l *waitlists) noteFirst(w *wait) {
	if w.asFirst == nil {
		w.asFirst = l.firsts.PushBack(w)
	}
}

const (
	// RetryEvery is how often jobs are taken without a hint, in case one was lost.
	RetryEvery = time.Second

	// MaxRetried bounds the tubes that are searched for that each time.
	MaxRetried = 2000
)

// retryFirsts calls waits that are the first in a waitlist, in case a hint was lost:
// as many as MaxRetried allows, and the next time the next ones. A wait for more tubes
// than that uses up what is allowed for several times.
func (l *waitlists) retryFirsts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.credit = min(l.credit+MaxRetried, MaxRetried)
	for n := l.firsts.Len(); n > 0 && l.credit > 0; n-- {
		e := l.firsts.Front()
		l.firsts.MoveToBack(e)
		w := e.Value.(*wait)
		l.credit -= len(w.tubes)
		l.call(w)
	}
	l.callDispatcher()
}
