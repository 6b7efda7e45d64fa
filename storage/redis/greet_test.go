package redis

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
)

// TestLateGreeting: a late reply to the greeting of a new connection is not taken for the reply
// to the next command.
func TestLateGreeting(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 2} {
		proxy := redistest.NewProxy(t, redistest.Start(t))
		s := openWith(t, Options{URL: proxy.URL(), Partitions: partitions, Timeout: 2 * hasty})
		var late atomic.Int64
		proxy.Intercept(nil, func(piece []byte) redistest.Fate {
			if bytes.Contains(piece, []byte("redis_version")) && late.Add(1) == 1 {
				time.Sleep(s.parts[0].options.attempt() + 100*time.Millisecond)
			}
			return redistest.Pass
		})
		proxy.Break()
		for i := range 20 {
			if a := do(s, put("x")); a.Err != nil {
				t.Errorf("%d partitions, put %d: %v", partitions, i, a.Err)
			}
		}
		if a := do(s, storage.Op{Kind: storage.TubeStats, Tube: "t"}); a.TubeStats == nil || a.TubeStats.Ready != 20 || late.Load() == 0 {
			t.Errorf("%d partitions: %s, greeted %d times", partitions, show(&a), late.Load())
		}
	}
}
