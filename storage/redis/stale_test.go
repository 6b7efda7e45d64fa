package redis

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// between calls a function once while the reply to a call that contains a word is on its way.
func between(proxy *redistest.Proxy, word string, what func()) {
	var seen atomic.Bool
	var once sync.Once
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if isCall(piece) && bytes.Contains(piece, []byte(word)) {
			seen.Store(true)
		}
		return redistest.Pass
	}, func(piece []byte) redistest.Fate {
		if what != nil && seen.Load() && isAnswer(piece) {
			once.Do(what)
		}
		return redistest.Pass
	})
}

// TestPaused: an instance that was paused before it delivered the reply to a take does not hand
// out the job if others have declared it dead meanwhile; if they have not it does. The other
// operations of the call were done, and are answered so.
func TestPaused(t *testing.T) {
	for name, dead := range map[string]bool{"declared dead": true, "still alive": false} {
		for kind, ops := range map[string][]storage.Op{
			"take":        {put("new"), take(1)},
			"reserve-job": {put("new"), move(tube.ReserveJob, 1, 1)},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				lt := newLeaseSetTest(t)
				proxy := redistest.NewProxy(t, lt.redis)
				a := lt.open(proxy.URL(), patient)
				do(lt.s, put("old"))
				assumeAlive(lt.s)
				between(proxy, "move", nil)
				between(proxy, "old", nil)
				word := "take"
				if kind == "reserve-job" {
					word = "reserve-job"
				}
				between(proxy, word, func() {
					lt.ahead.Add(int64(10 * time.Second))
					if dead {
						lt.s.Tick()
						awaitReserved(t, lt.s, 0)
						if got := do(lt.s, take(7)); got.ID != 1 {
							t.Errorf("the other one: %+v", got)
						}
					}
				})
				storage.DoWait(a, ops)
				if got := ops[0].Answer; got.Err != nil || got.ID != 2 {
					t.Errorf("the put: %+v", got)
				}
				switch got := ops[1].Answer; {
				case dead && (got.Err != nil || !got.NotFound || got.ID != 0):
					t.Errorf("handed out: %+v", got)
				case !dead && (got.ID != 1 || string(got.Body) != "old"):
					t.Errorf("not handed out: %+v", got)
				}
				if dead {
					if got := do(lt.s, move(tube.Delete, 7, 1)); got.Err != nil || got.NotFound {
						t.Errorf("its new holder: %+v", got)
					}
					if got := do(a, put("newer")); got.ID != 3 { // Redis has lost nothing
						t.Errorf("the next job: %+v", got)
					}
				}
			})
		}
	}
}
