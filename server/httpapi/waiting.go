package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/tube"
)

// waitingReserves are the requests that wait for a job, for lists of connections. It is safe for
// concurrent use.
type waitingReserves struct {
	mu  sync.Mutex
	all map[tube.Holder]*waitingReserve
}

// waitingReserve is a request that waits.
type waitingReserve struct {
	request *http.Request
	tubes   []string
	since   time.Time
}

// add adds a request, under a number that no connection has, until end is called.
func (w *waitingReserves) add(number tube.Holder, r *http.Request, tubes []string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = make(map[tube.Holder]*waitingReserve)
	}
	w.all[number] = &waitingReserve{r, tubes, time.Now()}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, number)
	}
}

// Clients implements queue.ClientSource.
func (w *waitingReserves) Clients(q *queue.ClientQuery) []queue.Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []queue.Client
	for number, waiting := range w.all {
		if number <= q.After {
			continue
		}
		if c := waiting.describe(number); q.Shows(c.User) {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b queue.Client) int { return cmp.Compare(a.ID, b.ID) })
	return all[:min(len(all), q.Limit)]
}

func (w *waitingReserve) describe(number tube.Holder) queue.Client {
	c := queue.Client{
		ID: number, Address: w.request.RemoteAddr, Entrance: "http", Waiting: true, Since: w.since.UnixMilli(),
		Watched: w.tubes[:min(len(w.tubes), queue.MaxShownTubes)], Watching: len(w.tubes),
	}
	if !strings.Contains(c.Address, ":") {
		c.Address = "local" // a Unix socket
	}
	if u := access.UserIn(w.request.Context()); u != nil {
		c.User = u.Name()
	}
	return c
}
