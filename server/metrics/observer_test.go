package metrics_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/metrics"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
)

// unreachableStore is a store that reports that it cannot be reached, and then does not answer.
type unreachableStore struct {
	*embedded.Engine
	mu  sync.Mutex
	err error
}

func (a *unreachableStore) set(err error) {
	a.mu.Lock()
	a.err = err
	a.mu.Unlock()
}

func (a *unreachableStore) Report() storage.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.Engine.Report()
	if errors.Is(a.err, storage.ErrNoSpace) {
		r.Refusing = a.err
	} else {
		r.Unavailable = a.err
	}
	return r
}

// TestReady: /readyz says why an instance is not ready, and /metrics still answers.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := metrics.New(metrics.Config{Tubes: 10})
		wantReady := func(status int, reason string) {
			t.Helper()
			code, text := get(o, "GET", metrics.ReadyPath)
			if code != status || text != reason+"\n" {
				t.Errorf("%d %q instead of %d %q", code, text, status, reason)
			}
			time.Sleep(2 * time.Second) // so that a new snapshot is taken
			ready := fmt.Sprint(map[bool]int{true: 1}[status == 200])
			expect(t, samples(t, o), map[string]string{"redstalk_ready": ready})
			if code, text := get(o, "HEAD", metrics.HealthPath); code != 200 || text != "ok\n" {
				t.Errorf("%d %q", code, text)
			}
		}
		wantReady(503, "the store is being loaded")
		store := &unreachableStore{Engine: embedded.NewMemory()}
		q := queue.New(store, queue.Config{})
		o.Serving(q)
		wantReady(200, "ready")
		store.set(storage.ErrUnavailable)
		wantReady(503, "the store cannot be reached")
		expect(t, samples(t, o), map[string]string{"redstalk_store_up": "0"})
		q.Drain()
		wantReady(503, "the store cannot be reached; the instance drains")
		q.Undrain()
		store.set(storage.ErrNoSpace)
		wantReady(503, "no jobs can be put: no space left in the store")
		store.set(nil)
		wantReady(200, "ready")
		o.Ending()
		wantReady(503, "the instance is shutting down")
		if code, _ := get(o, "POST", metrics.ReadyPath); code != http.StatusMethodNotAllowed {
			t.Error(code)
		}
		if code, _ := get(o, "GET", "/else"); code != http.StatusNotFound {
			t.Error(code)
		}
		q.Close(background)
	})
}

// stalledStore is a store whose Tick blocks until until is closed.
type stalledStore struct {
	*embedded.Engine
	until chan struct{}
}

func (s *stalledStore) Tick() (time.Duration, error) {
	<-s.until
	return s.Engine.Tick()
}

// TestLag: an instance whose timer does not fire is not ready until it does.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stalledStore{embedded.NewMemory(), make(chan struct{})}
		q := queue.New(store, queue.Config{})
		o := metrics.New(metrics.Config{})
		o.Serving(q)
		time.Sleep(time.Second)
		if reason := o.Unready(); reason != "" {
			t.Error(reason)
		}
		time.Sleep(10 * time.Second)
		if reason := o.Unready(); !strings.HasPrefix(reason, "timers are 10") {
			t.Error(reason)
		}
		close(store.until)
		time.Sleep(3 * time.Second)
		if reason := o.Unready(); reason != "" {
			t.Error(reason)
		}
		q.Close(background)
	})
}
