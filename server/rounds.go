package server

import (
	"time"

	"redstalk/storage"
)

const (
	// maxServed bounds how many of one tube's waiters are served in a round.
	maxServed = 64

	// maxTakes and maxLooks bound a round: by how many are served, and by the
	// tubes in which is looked for them. The last one may watch any number.
	maxTakes = 512
	maxLooks = 20_000
)

// usher serves those who are to be served until the hall is closed.
func (h *hall) usher() {
	defer close(h.done)
	for {
		select {
		case <-h.quit:
			return
		case <-h.bell:
		}
		for b := h.glance(); b != nil; b = h.glance() {
			storage.DoBatch(h.store, b)
		}
	}
}

// begin begins a round; nil if one is under way, or nobody is to be served. The
// lock is held.
func (h *hall) begin() *storage.Batch {
	if h.busy || len(h.dirty) == 0 && len(h.called) == 0 {
		return nil
	}
	r := h.pick()
	if len(r.waiters) == 0 {
		return nil
	}
	h.busy, h.begun = true, time.Now()
	// In its turn: whoever has released the job may have asked before that how
	// many wait, and is to be told of this one.
	return &storage.Batch{Ops: r.takes, InTurn: true, Done: func() {
		for _, w := range h.settle(r) {
			w.notify()
		}
	}}
}

// round is one batch of takes for those who wait.
type round struct {
	waiters    []*waiter
	takes      []storage.Op
	looks      int // tubes of all takes
	lines      []marked
	considered []*waiter // of all lines, one line after the other
}

// marked is a line in which somebody was to be served.
type marked struct {
	tube       string
	quota      int
	considered int // how many of round.considered are its
}

// full tells whether the n-th part of a round is used up.
func (r *round) full(n int) bool { return n*len(r.takes) >= maxTakes || n*r.looks >= maxLooks }

// forLines is the part of a round that is for marked lines, so that there is
// always some for those who were called.
const forLines = 2

// take has the round serve w. waits says that w goes on waiting if there is no
// job.
func (r *round) take(w *waiter, waits bool) {
	w.serving = true
	r.waiters = append(r.waiters, w)
	r.looks += len(w.tubes)
	r.takes = append(r.takes, storage.Op{Kind: storage.Take, Holder: w.holder, Tubes: w.tubes, Wait: waits})
}

// pick chooses who is served next: the first of each marked line, and then those
// who were called. The lock is held.
func (h *hall) pick() *round {
	r := &round{}
	for name, quota := range h.dirty {
		if r.full(forLines) {
			break
		}
		delete(h.dirty, name)
		if l := h.lines[name]; l != nil {
			r.pickLine(name, l, quota)
		}
	}
	n := 0
	for n < len(h.called) && !r.full(1) {
		w := h.called[n]
		n++
		if w.places == nil {
			continue // it has left meanwhile
		}
		w.called, w.passing, w.last = false, true, w.final
		if !w.serving {
			r.take(w, !w.last)
		}
	}
	clear(h.called[:n])
	if h.called = h.called[n:]; len(h.called) == 0 {
		h.called = nil
	}
	return r
}

// pickLine considers the first of a line. Who is served already for another tube
// counts, as the same take looks in this tube, too.
func (r *round) pickLine(tube string, l *line, quota int) {
	from := len(r.considered)
	for p := l.first; p != nil && quota > len(r.considered)-from && !r.full(forLines); p = p.next {
		if !p.waiter.serving {
			r.take(p.waiter, true)
		}
		r.considered = append(r.considered, p.waiter)
	}
	r.lines = append(r.lines, marked{tube, quota, len(r.considered) - from})
}

// settle ends a round: it gives out what was taken, and marks the lines in which
// everybody who was considered got a job, as there may be more. It returns who has
// an outcome.
func (h *hall) settle(r *round) (decided []*waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, w := range r.waiters {
		answer := r.takes[i].Answer
		w.got = answer.Err == nil && !answer.NotFound
		if answer.Err != nil {
			answer = storage.Answer{NotFound: true}
		}
		if w.got || w.leaving || w.last {
			h.decide(w, answer, w.got && w.passing)
			decided = append(decided, w)
		}
		w.serving, w.passing, w.last = false, false, false
	}
	considered := r.considered
	for _, line := range r.lines {
		if allGot(considered[:line.considered]) {
			h.mark(line.tube, min(2*line.quota, maxServed))
		}
		considered = considered[line.considered:]
	}
	h.busy = false
	h.ring()
	return decided
}

func allGot(waiters []*waiter) bool {
	for _, w := range waiters {
		if !w.got {
			return false
		}
	}
	return true
}
