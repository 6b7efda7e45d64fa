package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"redstalk/server/queue"
	"redstalk/storage/redis"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// newInstance starts a dispatcher on a Redis that other instances use too.
func newInstance(t *testing.T, url string, partitions int) *harness {
	t.Helper()
	log := &lines{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	store, err := redis.Open(context.Background(), redis.Options{URL: url, Partitions: partitions, Log: logger})
	if err != nil {
		t.Fatal(err)
	}
	w := &harness{TB: t, store: store, log: log}
	config := Config{Allow: allow(t, "127.0.0.1"), Log: logger}
	w.Queue = queue.New(store, queue.Config{Log: logger, MayPush: config.Allow.URL})
	w.Dispatcher = New(w.Queue, config)
	return w
}

// delivered returns how many calls of an instance succeeded.
func (w *harness) delivered() (n uint64) {
	for _, stats := range w.Dispatcher.Stats().Tubes {
		n += stats.Calls[Delivered]
	}
	return n
}

// TestInstancesShare: instances on one Redis find the policies that another one has set, and
// share the work of the tubes. No job is called twice.
func TestInstancesShare(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	t.Parallel()
	const n = 1000
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			var got calls
			s := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
				got.record(r)
				time.Sleep(2 * time.Millisecond)
			})
			url := redistest.Start(t).URL()
			a, b := newInstance(t, url, partitions), newInstance(t, url, partitions)
			for i := range 3 {
				a.push(fmt.Sprint("t", i), tube.Policy{Push: tube.Push{URL: s.URL, Concurrency: 4, Rate: 10000, RateEvery: time.Second}})
			}
			a.until("the other one knows", func() bool { return b.Dispatcher.Stats().Pushing == 3 && a.Dispatcher.Stats().Pushing == 3 })
			for i := range n {
				a.put(fmt.Sprint("t", i%3), fmt.Sprint(i))
			}
			a.until("all are called", func() bool { return a.delivered()+b.delivered() == n })
			if by := a.delivered(); by < n/10 || by > n*9/10 || len(got.all()) != n {
				t.Errorf("one has called %d of %d, both %d", by, n, len(got.all()))
			}
			b.push("t0", tube.Policy{Push: tube.Push{URL: s.URL + "/other"}})
			b.push("t1", tube.Policy{Rules: tube.Rules{Max: 3}})
			a.until("the change is known", func() bool { return a.Dispatcher.Stats().Pushing == 2 && b.Dispatcher.Stats().Pushing == 2 })
			a.end()
			last := b.put("t0", "x")
			b.until("it goes on alone", func() bool { return b.job(last).State == tube.Gone })
			b.end()
		})
	}
}

// TestInstancesShareRate: a rate is for all instances together: 150 calls at 50 a second take two
// seconds, whoever makes them.
func TestInstancesShareRate(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	t.Parallel()
	const n, rate = 150, 50
	s := receiver(t, func(http.ResponseWriter, *http.Request) {})
	url := redistest.Start(t).URL()
	a, b := newInstance(t, url, 1), newInstance(t, url, 1)
	a.push("t", tube.Policy{Push: tube.Push{URL: s.URL, Rate: rate, RateEvery: time.Second}})
	a.until("the other one knows", func() bool { return b.Dispatcher.Stats().Pushing == 1 })
	begun := time.Now()
	for i := range n {
		a.put("t", fmt.Sprint(i))
	}
	a.until("all are called", func() bool { return a.delivered()+b.delivered() == n })
	if took := time.Since(begun); took < (n/rate-1)*time.Second {
		t.Errorf("%d calls took %v", n, took)
	}
	a.end()
	b.end()
}
