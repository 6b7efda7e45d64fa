package httpapi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/limits"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
)

// TestSearchQueue: a limited number of searches runs at a time, alternating between users. A search that is
// cancelled or that times out in the queue does not run.
func TestSearchQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newSearchQueue()
		queue.atOnce = 1
		var mu sync.Mutex
		var order []string
		begin := func(ctx context.Context, client string) {
			end, err := queue.admit(ctx, client)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				order = append(order, "-"+client)
				return
			}
			order = append(order, client)
			go func() {
				time.Sleep(time.Second)
				end()
			}()
		}
		gone, leave := context.WithCancel(t.Context())
		for _, client := range strings.Fields("a a a b a b") {
			go begin(t.Context(), client)
			synctest.Wait()
		}
		go begin(gone, "c")
		synctest.Wait()
		leave()
		time.Sleep(time.Minute)
		for range maxSearches {
			go begin(t.Context(), "a")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := strings.Join(order[:7], " "); got != "a -c b a b a a" {
			t.Error(got)
		}
		served, refused := 0, 0
		for _, one := range order[7:] {
			if one == "a" {
				served++
			} else {
				refused++
			}
		}
		if served < 10 || served > 11 || served+refused != maxSearches {
			t.Errorf("%d were served, %d refused", served, refused)
		}
		if queue.running != 0 || len(queue.waiting) != 0 || queue.InUse() != 0 {
			t.Errorf("%d run, %d wait, %d are in use", queue.running, len(queue.waiting), queue.InUse())
		}
	})
}

// counted is an engine that counts the bodies that one call reads.
type counted struct {
	storage.Store
	mu    sync.Mutex
	limit int
}

func (c *counted) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		peeks := 0
		for i := range b.Ops {
			if b.Ops[i].Kind == storage.Peek {
				peeks++
			}
		}
		c.mu.Lock()
		c.limit = max(c.limit, peeks)
		c.mu.Unlock()
	}
	c.Store.Do(batches...)
}

// TestSearchInSteps: a search, and a list with excerpts, read only a few large bodies with one call of the store.
func TestSearchInSteps(t *testing.T) {
	t.Parallel()
	store := &counted{Store: embedded.NewMemory()}
	a := startWith(t, store, Config{}, queue.Config{MaxJobSize: bytesPerCall})
	const size = bytesPerCall / 4
	n := a.putMany("t", 30, func(i int) string { return fmt.Sprintf(`{"body":"%dx%s"}`, i, strings.Repeat("y", size)) })
	if page := decode[foundPage](t, a.want(200, "GET", "/v1/search?tube=t&text=xY", "")); len(page.Jobs) != n || page.Examined != n {
		t.Errorf("%d jobs of %d", len(page.Jobs), page.Examined)
	}
	if page := decode[jobsPage](t, a.want(200, "GET", "/v1/tubes/t/jobs?state=ready&excerpt=true", "")); len(page.Jobs) != n || !strings.HasPrefix(page.Jobs[n-1].Excerpt, "29xy") {
		t.Errorf("%d jobs, the last is %.10q", len(page.Jobs), page.Jobs[n-1].Excerpt)
	}
	if store.limit != 4 {
		t.Errorf("%d bodies are read with one call", store.limit)
	}
}

// TestHeadOfStreams: a HEAD request for a stream is answered at once, and does not count as an open stream.
func TestHeadOfStreams(t *testing.T) {
	t.Parallel()
	a := start(t, Config{MaxStreams: 1})
	for _, path := range []string{"/v1/events", "/v1/watch"} {
		if got := a.want(200, "HEAD", path, ""); got.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %v", path, got.header)
		}
	}
	a.stream("")
}

// TestLimitsPerUser: one user cannot use all streams, nor all waiting reserves.
func TestLimitsPerUser(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "small t work,read", "root * read,work")
	g.api.service.streams, g.api.service.waiting = limits.NewShares(4), limits.NewShares(4)
	const small, root = "Authorization: Bearer small:small", "Authorization: Bearer root:root"
	for range 2 {
		g.stream("?tube=t", small)
		go g.try(t.Context(), "POST", "/v1/reserve?tube=t&wait=1h", "", small)
	}
	g.awaitWaiting(2)
	g.want(429, "GET", "/v1/events?tube=t", "", small)
	g.want(429, "POST", "/v1/reserve?tube=t&wait=1h", "", small)
	g.stream("", root)
	go g.try(t.Context(), "POST", "/v1/reserve?tube=t&wait=1h", "", root)
	g.awaitWaiting(3)
}

// TestSearchesOfOneClient: a client that already has half of the searches is refused, with Retry-After.
func TestSearchesOfOneClient(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	for range maxSearches / 2 {
		a.api.service.searches.Acquire("127.0.0.1")
	}
	for _, path := range []string{"/v1/search?tube=t&text=x", "/v1/search", "/v1/tubes/t/jobs?state=ready&excerpt=true"} {
		if got := a.want(429, "GET", path, ""); got.header.Get("Retry-After") == "" {
			t.Errorf("%s has no Retry-After", path)
		}
	}
	a.want(200, "GET", "/v1/tubes/t/jobs?state=ready", "")
	a.api.service.searches.Release("127.0.0.1")
	a.want(200, "GET", "/v1/search", "")
}
