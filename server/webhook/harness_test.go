package webhook

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// harness is a dispatcher on a queue on a memory engine.
type harness struct {
	testing.TB
	*queue.Queue
	*Dispatcher
	store storage.Store
	log   *lines
}

// lines are the lines that were logged.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(b))
	return len(b), nil
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.text)
}

// newHarness starts a dispatcher. The caller must end it, since a synctest bubble allows no
// cleanup function to do that.
func newHarness(t testing.TB, c Config) *harness {
	t.Helper()
	return newHarnessOn(t, &failing{}, c)
}

// newHarnessOn is newHarness on a store that can be made to fail. It is filled with a memory
// engine.
func newHarnessOn(t testing.TB, store *failing, c Config) *harness {
	t.Helper()
	store.Store = embedded.NewMemory()
	w := &harness{TB: t, store: store, log: &lines{}}
	c.Log = slog.New(slog.NewTextHandler(w.log, nil))
	mayPush := func(url string) bool { return c.Allow.URL(url) }
	w.Queue = queue.New(w.store, queue.Config{Log: slog.New(slog.DiscardHandler), MayPush: mayPush})
	w.Dispatcher = New(w.Queue, c)
	return w
}

func (w *harness) end() {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.Dispatcher.Close(ctx); err != nil {
		w.Errorf("close: %v", err)
	}
	if err := w.Queue.Close(ctx); err != nil {
		w.Errorf("close: %v", err)
	}
	w.store.Close()
}

func allow(t testing.TB, list string) *Allow {
	t.Helper()
	a, err := ParseAllow(list)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// receiver starts an HTTP server with the handler h.
func receiver(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// push sets the policy of a tube.
func (w *harness) push(name string, p tube.Policy) {
	w.Helper()
	if err := w.SetPolicy(context.Background(), name, &p); err != nil {
		w.Fatalf("set-policy: %v", err)
	}
}

// put puts a job with a TTR of a minute.
func (w *harness) put(name, body string) uint64 { return w.putFor(name, body, 60) }

func (w *harness) putFor(name, body string, ttr uint32) uint64 {
	w.Helper()
	id, err := w.Put(context.Background(), queue.NewJob{Tube: name, Pri: 77, TTR: ttr, Body: []byte(body)})
	if err != nil {
		w.Fatalf("put: %v", err)
	}
	return id
}

// job returns the stats of a job; its state is tube.Gone if it does not exist.
func (w *harness) job(id uint64) *tube.JobStats {
	w.Helper()
	s, err := w.JobStats(context.Background(), id)
	if err == queue.ErrNotFound {
		return &tube.JobStats{}
	}
	if err != nil {
		w.Fatalf("stats-job: %v", err)
	}
	return s
}

// waitTimeout is how long until waits for something that happens soon.
const waitTimeout = time.Minute

// until waits until cond holds.
func (w *harness) until(what string, cond func() bool) {
	w.Helper()
	for begun := time.Now(); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begun) > waitTimeout {
			w.Fatalf("timed out: %s; log: %q", what, w.log.all())
		}
	}
}

// calls are the calls that a receiver has got.
type calls struct {
	mu  sync.Mutex
	got []call
}

type call struct {
	header http.Header
	body   string
	at     time.Time
}

func (c *calls) record(r *http.Request) call {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = []byte(fmt.Sprint("broken off: ", err))
	}
	received := call{r.Header.Clone(), string(body), time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, received)
	return received
}

func (c *calls) all() []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}
