package embedded

import (
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(testing.TB) *storetest.Engine {
		var ahead atomic.Int64
		return &storetest.Engine{
			Open: func(testing.TB) storage.Store {
				e := NewMemory()
				start := e.start
				e.clock = func() time.Time { return start.Add(time.Duration(ahead.Load())) }
				return e
			},
			Advance: func(d time.Duration) { ahead.Add(int64(d)) },
		}
	})
}
