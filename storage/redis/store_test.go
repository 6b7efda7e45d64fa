package redis

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/fsck"
	"redstalk/storage/redis/schema"
	"redstalk/storage/storetest"
	"redstalk/tools/redistest"
)

// onlyErrors is the log of the suite. Its clock moves by hand and its servers do not persist, so each store
// would warn of both.
var onlyErrors = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))

// engines opens stores on one Redis, each engine in a namespace of its own, with
// a clock that is moved by hand, and with lease sets of two jobs. Every second one
// caches no bodies.
type engines struct {
	url        string
	prefix     string // of the namespaces; "" means test
	partitions int    // 0: as many as usual
	brief      int    // see storetest.Engine
	largeFrom  int    // see Options
	plain      bool   // ids are shown as they are, though there are several partitions
	opened     int
}

// namespace returns the namespace of the n-th engine.
func (e *engines) namespace(n int) string { return fmt.Sprint(cmp.Or(e.prefix, "test"), n) }

func (e *engines) fresh(testing.TB) *storetest.Engine {
	e.opened++
	var ahead atomic.Int64
	o := Options{
		URL: e.url, Namespace: e.namespace(e.opened), Partitions: e.partitions,
		skew:         func() time.Duration { return time.Duration(ahead.Load()) },
		leaseSetFrom: 2, noBodyCache: e.opened%2 == 0, largeFrom: e.largeFrom, tickPatience: patient,
		Log: onlyErrors,
	}
	open := func(t testing.TB) storage.Store {
		s, err := Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	engine := &storetest.Engine{
		Open:    open,
		Crash:   func(s storage.Store) { s.(*Store).crash() },
		Advance: func(d time.Duration) { ahead.Add(int64(d)) },
		Now:     func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		Durable: true, KeepsTubes: true, LateDeadLetters: true, Brief: e.brief, Unit: 10,
	}
	plain := *engine
	plain.LearnIDs, engine.Plain = true, &plain
	if e.partitions == 1 || e.plain {
		return engine
	}
	all := newRenumbered()
	engine.Open = func(t testing.TB) storage.Store { return all.opened(open(t)) }
	engine.Crash = func(storage.Store) { all.store.(*Store).crash() }
	engine.Advance = func(d time.Duration) {
		ahead.Add(int64(d))
		all.advance(d)
	}
	return engine
}

// crash ends a store without telling Redis.
func (s *Store) crash() {
	s.closeConnections()
	s.end()
}

// runOfAllSizes runs the suite as usual, and with large jobs only, and fsck on what is left.
func (e *engines) runOfAllSizes(t *testing.T) {
	for name, from := range map[string]int{"usual": 0, "large": 1} {
		e.largeFrom = from
		t.Run(name, func(t *testing.T) { storetest.Run(t, e.fresh) })
	}
	e.check(t)
}

func TestSuite(t *testing.T) {
	t.Parallel()
	e := &engines{url: redistest.Start(t).URL(), partitions: 1}
	storetest.Run(t, e.fresh)
	e.check(t)
}

// check runs fsck on what the engines have left.
func (e *engines) check(t *testing.T) {
	t.Helper()
	for n := range e.opened {
		o := Options{URL: e.url, Namespace: e.namespace(n + 1)}
		_, err := fsck.Check(context.Background(), fsckOptions(o), false, fsck.Report{Found: func(_ int, what string) { t.Errorf("%s: %s", o.Namespace, what) }})
		if err != nil {
			t.Error(err)
		}
	}
}

// skipIfShort leaves a test to make test-long.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
}

// inThisHalf reports whether to run the n-th case of a test: with -short one half of them, which is the other one in
// about every second run.
func inThisHalf(n int) bool { return !testing.Short() || n%2 == half }

var half = rand.IntN(2)

// TestSuiteOfLargeJobs is the suite with large jobs: all of them, or those with a body of
// some bytes, beside others.
func TestSuiteOfLargeJobs(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	for name, from := range map[string]int{"all": 1, "some": schema.NameAt + len("default") + 6} {
		t.Run(name, func(t *testing.T) {
			e := &engines{url: redistest.Start(t).URL(), partitions: 1, brief: 2, largeFrom: from}
			storetest.Run(t, e.fresh)
			e.check(t)
		})
	}
}

// TestSuiteOfLargeJobsInPartitions is the same by go-redis's pool.
func TestSuiteOfLargeJobsInPartitions(t *testing.T) {
	skipIfShort(t)
	e := &engines{url: redistest.Start(t).URL(), partitions: *suitePartitions, brief: 2, largeFrom: 1}
	storetest.Run(t, e.fresh)
	e.check(t)
}

// suitePartitions is how many there are in the suite: fewer than a cluster has,
// because a busy machine takes so long over the background work of all that tests of time
// notice.
var suitePartitions = flag.Int("suite-partitions", 4, "partitions in the suite")

// TestSuiteInPartitions is the suite on a single server with partitions.
func TestSuiteInPartitions(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	e := &engines{url: redistest.Start(t).URL(), partitions: *suitePartitions}
	storetest.Run(t, e.fresh)
	e.check(t)
}
