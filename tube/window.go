package tube

import (
	"slices"
	"time"
)

// window is the starts of the last period of one rate, together where they were close. A start
// takes a token, which comes back one period later; so in any period there are at most as many
// starts as the rate says.
type window []starts

// starts are some starts of a window.
type starts struct {
	first, last Instant
	count       uint32
}

// Starts are together, and their tokens come back together, if they are at the same time; or within
// an eighth of the period, as long as they are less than a 64th of what the rate allows. So a window
// has at most some 70 entries, and a rate that is used up loses little time.
const (
	windowParts = 8
	rateParts   = 64
)

// windows are those of all rates, by RatePeriods.
type windows [len(RatePeriods)]window

// add records a start for each rate that is set.
func (w *windows) add(now Instant, rates Rates) {
	for i, n := range rates {
		if n > 0 {
			w[i].drop(now, RatePeriods[i])
			w[i].add(now, RatePeriods[i], n)
		}
	}
}

// undo forgets a start at that time, in each window.
func (w *windows) undo(at Instant) {
	for i := range w {
		w[i].undo(at)
	}
}

// nextToken returns when each rate has a token, as far as is known now: now or earlier if they have. w
// can be nil.
func (w *windows) nextToken(now Instant, rates Rates) (at Instant) {
	if w == nil {
		return 0
	}
	for i, n := range rates {
		if n > 0 {
			at = max(at, w[i].nextToken(now, RatePeriods[i], n))
		}
	}
	return at
}

// drop removes the starts whose tokens have come back. w can be nil.
func (w *windows) drop(now Instant) {
	if w == nil {
		return
	}
	for i := range w {
		w[i].drop(now, RatePeriods[i])
	}
}

// end returns when the last token comes back, 0 if none is taken. w can be nil.
func (w *windows) end() (at Instant) {
	if w == nil {
		return 0
	}
	for i := range w {
		if n := len(w[i]); n > 0 {
			at = max(at, w[i][n-1].last.Plus(RatePeriods[i]))
		}
	}
	return at
}

// add records a start, with a rate of n.
func (w *window) add(now Instant, period time.Duration, n uint32) {
	if len(*w) > 0 {
		last := &(*w)[len(*w)-1]
		if now == last.last || now < last.first.Plus(period/windowParts) && last.count*rateParts < n {
			last.last, last.count = now, last.count+1
			return
		}
	}
	*w = append(*w, starts{now, now, 1})
}

func (w *window) drop(now Instant, period time.Duration) {
	n := 0
	for n < len(*w) && (*w)[n].last.Plus(period) <= now {
		n++
	}
	*w = append((*w)[:0], (*w)[n:]...)
}

// nextToken returns when fewer than n tokens are taken: now, or when that will be.
func (w window) nextToken(now Instant, period time.Duration, n uint32) Instant {
	taken, at := uint32(0), now
	for i := len(w) - 1; i >= 0; i-- {
		back := w[i].last.Plus(period)
		if back <= now {
			break
		}
		if taken += w[i].count; taken >= n {
			at = back
			break
		}
	}
	return at
}

// undo forgets a start at that time, if it is still known.
func (w *window) undo(at Instant) {
	for i := range *w {
		if s := &(*w)[i]; s.first <= at && at <= s.last {
			if s.count--; s.count == 0 {
				*w = slices.Delete(*w, i, i+1)
			}
			return
		}
	}
}
