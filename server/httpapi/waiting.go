package httpapi

import (
	"cmp"
	"context"
	"errors"
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
	close   context.CancelCauseFunc
}

// errWaitClosed ends a request that waits: an administrator has closed it.
var errWaitClosed = errors.New("closed by an administrator")

// add adds a request, under a number that no connection has, until end is called. It returns the request whose context ends when
// it is closed.
func (w *waitingReserves) add(number tube.Holder, r *http.Request, tubes []string) (closable *http.Request, end func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = make(map[tube.Holder]*waitingReserve)
	}
	w.all[number] = &waitingReserve{r, tubes, time.Now(), cancel}
	return r.WithContext(ctx), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, number)
		cancel(nil)
	}
}

// CloseClient implements queue.ClientSource: the request is answered that there is no job.
func (w *waitingReserves) CloseClient(id tube.Holder) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.all[id]
	if waiting == nil {
		return false
	}
	waiting.close(errWaitClosed)
	return true
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
