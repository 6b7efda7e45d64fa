package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/storage/storetest"
)

// engines opens stores on one Redis server, each engine in a namespace of its
// own, with a clock that is moved by hand.
type engines struct {
	server *redistest.Server
	opened int
}

func (e *engines) fresh(testing.TB) *storetest.Engine {
	e.opened++
	namespace := fmt.Sprintf("test%d", e.opened)
	var ahead atomic.Int64
	skew := func() time.Duration { return time.Duration(ahead.Load()) }
	return &storetest.Engine{
		Open: func(t testing.TB) storage.Store {
			s, err := Open(context.Background(), Options{URL: e.server.URL(), Namespace: namespace, skew: skew})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Crash:   func(s storage.Store) { s.(*Store).crash() },
		Advance: func(d time.Duration) { ahead.Add(int64(d)) },
		Durable: true, KeepsTubes: true,
	}
}

// crash ends a store without saying a word to Redis.
func (s *Store) crash() {
	s.hangUp()
	s.part.end()
}

func TestSuite(t *testing.T) {
	e := &engines{server: redistest.Start(t)}
	storetest.Run(t, e.fresh)
}
