package redis

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/storage/storetest"
)

// engines opens stores on one Redis, each engine in a namespace of its own, with
// a clock that is moved by hand, and with lease sets of two jobs. Every second one
// caches no bodies.
type engines struct {
	url        string
	partitions int // 0: as many as usual
	brief      int // see storetest.Engine
	opened     int
}

func (e *engines) fresh(testing.TB) *storetest.Engine {
	e.opened++
	var ahead atomic.Int64
	o := Options{
		URL: e.url, Namespace: fmt.Sprintf("test%d", e.opened), Partitions: e.partitions,
		skew:         func() time.Duration { return time.Duration(ahead.Load()) },
		leaseSetFrom: 2, noBodyCache: e.opened%2 == 0,
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
		Durable: true, KeepsTubes: true, Brief: e.brief, Unit: 10,
	}
	if e.partitions == 1 {
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

// crash ends a store without saying a word to Redis.
func (s *Store) crash() {
	s.hangUp()
	s.end()
}

func TestSuite(t *testing.T) {
	e := &engines{url: redistest.Start(t).URL(), partitions: 1}
	storetest.Run(t, e.fresh)
	e.check(t)
}

// check has fsck look at what the engines have left.
func (e *engines) check(t *testing.T) {
	t.Helper()
	for n := range e.opened {
		o := Options{URL: e.url, Namespace: fmt.Sprintf("test%d", n+1)}
		_, err := Check(context.Background(), o, false, Report{Found: func(_ int, what string) { t.Errorf("%s: %s", o.Namespace, what) }})
		if err != nil {
			t.Error(err)
		}
	}
}

// suitePartitions is how many there are in the suite: fewer than a cluster has,
// because a busy machine takes so long over the upkeep of all that tests of time
// notice.
var suitePartitions = flag.Int("suite-partitions", 4, "partitions in the suite")

// TestSuiteInPartitions is the suite on a single server with partitions.
func TestSuiteInPartitions(t *testing.T) {
	e := &engines{url: redistest.Start(t).URL(), partitions: *suitePartitions}
	storetest.Run(t, e.fresh)
	e.check(t)
}
