package httpapi

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"redstalk/server/access"
)

// This file bounds requests that hold something for long: streams, waits, and searches.

// places are room for so many requests of a kind. Nobody gets one who has as many already as are
// free, so there is always one for somebody else. This does not hold for whom nobody knows: "".
type places struct {
	most int

	mu    sync.Mutex // guards what follows
	taken int
	of    map[string]int
}

func newPlaces(most int) *places { return &places{most: most, of: make(map[string]int)} }

// take takes a place, which leave gives back. It reports whether there was one.
func (p *places) take(who string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.most - p.taken
	if free <= 0 || who != "" && p.of[who] >= free {
		return false
	}
	p.taken++
	p.of[who]++
	return true
}

func (p *places) leave(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[who]--; p.of[who] == 0 {
		delete(p.of, who)
	}
}

// clientOf returns who has sent a request: a user, or else an address.
func (d *Door) clientOf(r *http.Request) string {
	if u := access.UserIn(r.Context()); u != nil && u != d.config.Access.Anonymous() {
		return "user " + u.Name()
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// clientKey is the key of what clientOf returns in the context of an operation that huma reads.
type clientKey struct{}

func clientIn(ctx context.Context) string {
	who, _ := ctx.Value(clientKey{}).(string)
	return who
}

const (
	// maxSearches is how many searches there may be, those that wait for their turn included.
	maxSearches = 100

	// turnLimit is how long a search waits for its turn.
	turnLimit = 10 * time.Second

	// mostRest bounds how long a search lets others go on after a step.
	mostRest = 50 * time.Millisecond
)

// turns let searches through: those of several users in turn, and so few at a time that half of
// the processors are left to others.
type turns struct {
	*places
	atOnce int

	mu      sync.Mutex // guards what follows
	running int
	waiting []*turn
	last    string // who has got the last turn
}

// turn is a search that waits.
type turn struct {
	who  string
	come chan struct{} // closed when it has come
}

func newTurns() *turns {
	return &turns{places: newPlaces(maxSearches), atOnce: max(1, runtime.GOMAXPROCS(0)/2)}
}

// begin waits for a turn, which end ends.
func (t *turns) begin(ctx context.Context, who string) (end func(), err error) {
	if !t.take(who) {
		return nil, tooMany("too many searches wait for their turn")
	}
	end = func() {
		t.next()
		t.leave(who)
	}
	mine := t.join(who)
	limit := time.NewTimer(turnLimit)
	defer limit.Stop()
	select {
	case <-mine.come:
		return end, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = tooMany("other searches take too long")
	}
	if t.giveUp(mine) {
		t.leave(who)
	} else {
		end()
	}
	return nil, err
}

// join makes a turn, which has come at once if nobody is before it.
func (t *turns) join(who string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := &turn{who, make(chan struct{})}
	if t.running < t.atOnce {
		t.running++
		t.last = who
		close(mine.come)
	} else {
		t.waiting = append(t.waiting, mine)
	}
	return mine
}

// next ends a turn, and gives it to another search: the first of another user than the last.
func (t *turns) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.running--
		return
	}
	i := max(0, slices.IndexFunc(t.waiting, func(one *turn) bool { return one.who != t.last }))
	t.last = t.waiting[i].who
	close(t.waiting[i].come)
	t.waiting = slices.Delete(t.waiting, i, i+1)
}

// giveUp reports whether a turn will not come any more. Otherwise it has come.
func (t *turns) giveUp(mine *turn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, mine)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	return i >= 0
}

// rest lets others go on for as long as a step has taken.
func rest(ctx context.Context, step time.Time) error {
	pause := time.NewTimer(min(time.Since(step), mostRest))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
