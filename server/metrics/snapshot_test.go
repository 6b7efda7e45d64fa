package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/metrics"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// TestTubesForDeadLetters: a tube is for dead letters if a policy names it, or if nobody works on it and its first
// ready job is one. It is within ten seconds.
func TestTubesForDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance(t, 10)
		i.put(t, "named", 0)
		i.put(t, "other", 0)
		must[tube.PutAnswer](t)(i.PutTagged(background, queue.NewJob{Tube: "jobs", TTR: 60}, &tube.Tags{Rules: tube.Rules{Max: 1, Dead: "tagged"}}))
		id := i.reserve(t, "jobs", 0)
		if err := i.Release(background, i.h, id, tube.Terms{}); err != nil {
			t.Fatal(err)
		}
		want := func(tubes ...string) {
			t.Helper()
			time.Sleep(11 * time.Second)
			var got []string
			for name, value := range samples(t, i.o) {
				if rest, ok := strings.CutPrefix(name, `redstalk_tube_for_dead_letters{tube="`); ok && value == "1" {
					got = append(got, strings.TrimSuffix(rest, `"}`))
				}
			}
			if slices.Sort(got); !slices.Equal(got, tubes) {
				t.Errorf("%v, want %v", got, tubes)
			}
		}
		want("tagged")
		i.reserve(t, "tagged", 0) // somebody works on it, so it is a tube like others
		must[tube.PutAnswer](t)(i.PutTagged(background, queue.NewJob{Tube: "jobs", TTR: 60}, &tube.Tags{Rules: tube.Rules{Max: 1, Dead: "tagged"}}))
		if err := i.Release(background, i.h, i.reserve(t, "jobs", 0), tube.Terms{}); err != nil {
			t.Fatal(err)
		}
		want()
		if err := i.ReleaseAll(background, i.h); err != nil {
			t.Fatal(err)
		}
		want("tagged")
		if err := i.SetPolicy(background, "jobs", &tube.Policy{Rules: tube.Rules{Dead: "named"}}); err != nil {
			t.Fatal(err)
		}
		want("named", "tagged")
		must[int](t)(i.Flush(background, "tagged", tube.Ready))
		want("named")
	})
}

// TestUncountedTubesShown: where the store counts fewer tubes by name than are shown, other
// tubes are shown too, up to the limit, also those that were created after the last scrape.
// The jobs of all tubes that are not shown are one sum for each state.
func TestUncountedTubesShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := embedded.NewMemory()
		q := queue.New(store, queue.Config{NamedTubes: 1})
		defer q.Close(background)
		o := metrics.New(metrics.Config{Tubes: 4})
		o.Serving(q)
		i := &instance{q, o, store, q.NewHolder()}
		shown := func() (names []string) {
			time.Sleep(2 * time.Second)
			for name := range samples(t, o) {
				if rest, ok := strings.CutPrefix(name, `redstalk_tube_paused{tube="`); ok {
					names = append(names, strings.TrimSuffix(rest, `"}`))
				}
			}
			slices.Sort(names)
			return names
		}
		var all []string
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			if i.put(t, name, 0); len(all) < 3 {
				all = append(all, name)
			}
			if got := shown(); !slices.Equal(got, append(all[:len(all):len(all)], "default")) {
				t.Errorf("behind %s there are %v", name, got)
			}
		}
		// Two tubes are beyond the limit: d and e.
		i.put(t, "d", 60)
		i.put(t, "e", 60)
		id := i.reserve(t, "d", 0)
		if err := i.Bury(background, i.h, id, 1); err != nil {
			t.Fatal(err)
		}
		must[uint64](t)(q.Put(background, queue.NewJob{Tube: "e", Pri: 1, TTR: 60}))
		i.reserve(t, "e", 0)
		must[uint64](t)(q.Put(background, queue.NewJob{Tube: "e", Pri: 1, TTR: 60}))
		i.put(t, "a", 60)
		time.Sleep(2 * time.Second)
		expect(t, samples(t, o), map[string]string{
			`redstalk_tube_jobs{tube="all others",state="ready"}`:    "2",
			`redstalk_tube_jobs{tube="all others",state="reserved"}`: "1",
			`redstalk_tube_jobs{tube="all others",state="delayed"}`:  "2",
			`redstalk_tube_jobs{tube="all others",state="buried"}`:   "1",
			`redstalk_tube_urgent_jobs{tube="all others"}`:           "1",
		})
	})
}

// countingStore counts its calls.
type countingStore struct {
	*embedded.Engine
	mu     sync.Mutex
	stats  int
	maxOps int // operations of one batch
}

func (c *countingStore) Do(batches ...*storage.Batch) {
	c.mu.Lock()
	for _, b := range batches {
		c.maxOps = max(c.maxOps, len(b.Ops))
		if b.Ops[0].Kind == storage.Stats {
			c.stats++
		}
	}
	c.mu.Unlock()
	c.Engine.Do(batches...)
}

// TestShared: concurrent scrapes, and scrapes within a second, ask the store once, in small
// steps.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &countingStore{Engine: embedded.NewMemory()}
		q := queue.New(store, queue.Config{})
		o := metrics.New(metrics.Config{Tubes: 1000})
		o.Serving(q)
		for n := range 500 {
			must[uint64](t)(q.Put(background, queue.NewJob{Tube: fmt.Sprint("t", n), TTR: 1}))
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { get(o, "GET", metrics.MetricsPath) })
		}
		all.Wait()
		get(o, "GET", metrics.MetricsPath)
		if store.stats != 1 || store.maxOps > 50 {
			t.Errorf("the store was asked %d times, with up to %d operations at once", store.stats, store.maxOps)
		}
		time.Sleep(2 * time.Second)
		get(o, "GET", metrics.MetricsPath)
		if store.stats != 2 {
			t.Errorf("the store was asked %d times", store.stats)
		}
		q.Close(background)
	})
}

// slowStore is a store that does not answer questions about tubes until it may proceed.
type slowStore struct {
	*embedded.Engine
	proceed chan struct{}
	asked   atomic.Int64
}

func (s *slowStore) Do(batches ...*storage.Batch) {
	if batches[0].Ops[0].Kind == storage.TubeStats {
		s.asked.Add(1)
		<-s.proceed
	}
	s.Engine.Do(batches...)
}

// TestConcurrentSteps: a scrape asks a slow store for a limited number of tubes at a time.
func TestConcurrentSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Engine: embedded.NewMemory(), proceed: make(chan struct{})}
		q := queue.New(store, queue.Config{NamedTubes: 1000})
		o := metrics.New(metrics.Config{Tubes: 1000})
		o.Serving(q)
		for n := range 999 {
			must[uint64](t)(q.Put(background, queue.NewJob{Tube: fmt.Sprint("t", n), TTR: 1}))
		}
		go get(o, "GET", metrics.MetricsPath)
		synctest.Wait()
		if n := store.asked.Load(); n != 8 {
			t.Errorf("it was asked %d times at once", n)
		}
		close(store.proceed)
		synctest.Wait()
		if n := store.asked.Load(); n != 32 {
			t.Errorf("it was asked %d times", n)
		}
		q.Close(background)
	})
}

// TestAllFiguresOrNone: a store that does not answer the questions about tubes in time has no figures at all, as the
// alerts expect.
func TestAllFiguresOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Engine: embedded.NewMemory(), proceed: make(chan struct{})}
		q := queue.New(store, queue.Config{})
		o := metrics.New(metrics.Config{Tubes: 10})
		o.Serving(q)
		if all := samples(t, o); all["redstalk_tubes"] != "" || all["redstalk_store_up"] != "1" {
			t.Errorf("%v tubes, the store is up: %v", all["redstalk_tubes"], all["redstalk_store_up"])
		}
		close(store.proceed)
		time.Sleep(2 * time.Second)
		if all := samples(t, o); all["redstalk_tubes"] != "1" {
			t.Errorf("%v tubes", all["redstalk_tubes"])
		}
		q.Close(background)
	})
}

// BenchmarkScrape scrapes a thousand tubes, all of whose metrics have values.
func BenchmarkScrape(b *testing.B) {
	i := newInstance(b, 1000)
	for n := range 999 {
		name := fmt.Sprint("some.tube.", n)
		i.put(b, name, 0)
		i.put(b, name, 0)
		if err := i.Delete(background, i.h, i.reserve(b, name, 0)); err != nil {
			b.Fatal(err)
		}
	}
	h := i.o.Handler(nil)
	for b.Loop() {
		i.o.Forget()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", metrics.MetricsPath, nil))
		b.ReportMetric(float64(w.Body.Len()), "bytes")
	}
}
