package redis

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestGoneBeforeAnsweredAgain: the reply to a take is lost, and the job is gone before the
// reply is repeated. No client gets a job that does not exist: the client gets the next one, or
// none.
func TestGoneBeforeAnsweredAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		op   storage.Op
		word string
		size int
		gone func(lt *leaseSetTest, id uint64)
	}{
		"lease":          {takeOf(tube.LeaseHolder, "t"), "\r\nlease\r\n", 10, (*leaseSetTest).surviveRestart},
		"large lease":    {takeOf(tube.LeaseHolder, "t"), "\r\nlease\r\n", 20_000, (*leaseSetTest).surviveRestart},
		"lease of many":  {takeOf(tube.LeaseHolder, "other", "t"), "take-lease", 10, (*leaseSetTest).surviveRestart},
		"take":           {takeOf(1, "t"), "\r\ntake\r\n", 10, (*leaseSetTest).deleteByKey},
		"large take":     {takeOf(1, "t"), "\r\ntake\r\n", 20_000, (*leaseSetTest).deleteByKey},
		"take from many": {takeOf(1, "other", "t"), "take-any", 10, (*leaseSetTest).deleteByKey},
		"reserve-job":    {storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1}, "reserve-job", 10, (*leaseSetTest).deleteByKey},
	} {
		for _, left := range []int{0, 1} {
			t.Run(name, func(t *testing.T) {
				lt := newLeaseSetTest(t)
				proxy := redistest.NewProxy(t, lt.redis)
				a := lt.open(proxy.URL(), patient)
				tags := &storage.Args{Tags: &tube.Tags{Key: "k"}}
				tc.op.ID = do(lt.s, storage.Op{Kind: storage.Put, Tube: "t", TTR: 1, Body: bodyOf('a', tc.size), Args: tags}).ID
				for range left {
					do(lt.s, storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Body: bodyOf('b', tc.size)})
				}
				cutBehind(proxy, tc.word, func() { tc.gone(lt, tc.op.ID) })
				got := do(a, tc.op)
				if got.Err != nil || got.ID == tc.op.ID || got.NotFound != (got.ID == 0) {
					t.Errorf("job %d, %v, found %v", got.ID, got.Err, !got.NotFound)
				}
				if takes := tc.op.Kind == storage.Take; takes && got.NotFound != (left == 0) {
					t.Errorf("job %d of %d that are left", got.ID, left)
				}
				if got.ID != 0 && string(got.Body) != string(bodyOf('b', tc.size)) {
					t.Errorf("a body with %d bytes", len(got.Body))
				}
				if sum := figures(t, a); sum.Reserved != uint64(min(left, int(got.ID))) {
					t.Errorf("%+v", sum)
				}
			})
		}
	}
}

// cutBehind loses the reply to the first call that contains a word, and calls a function before
// the call is repeated.
func cutBehind(proxy *redistest.Proxy, word string, what func()) {
	var sent, lost atomic.Bool
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if isCall(piece) && bytes.Contains(piece, []byte(word)) {
			sent.Store(true)
		}
		return redistest.Pass
	}, func(piece []byte) redistest.Fate {
		if !sent.Load() || !isAnswer(piece) || lost.Swap(true) {
			return redistest.Pass
		}
		what()
		return redistest.Cut
	})
}

// surviveRestart lets a lease end, and deletes the job.
func (lt *leaseSetTest) surviveRestart(id uint64) {
	lt.ahead.Add(int64(2 * time.Second))
	lt.s.Tick()
	do(lt.s, move(tube.Delete, 9, id))
}

// deleteByKey deletes a job of any holder.
func (lt *leaseSetTest) deleteByKey(uint64) {
	do(lt.s, storage.Op{Kind: storage.DeleteKey, Tube: "t", Args: &storage.Args{Key: "k"}})
}
