package limits

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// reader is a client with unread bytes.
type reader struct {
	bytes int64
	read  uint64
	gone  atomic.Bool
}

func (r *reader) Unread() (int64, uint64) { return r.bytes, r.read }
func (r *reader) GiveWay()                { r.gone.Store(true) }

// TestGuard: clients that read nothing are cut off before those that read something, then
// those with most unread bytes. Nobody is cut off at the first check, or without need.
func TestGuard(t *testing.T) {
	a, b, c, d := new(reader), new(reader), new(reader), new(reader)
	g := guard{max: 100}
	step := func(want []Reader, all ...unread) {
		t.Helper()
		if got := g.inspect(all); !slices.Equal(got, want) {
			t.Errorf("%d are cut off, want %d", len(got), len(want))
		}
	}
	step(nil, unread{a, 60, 0}, unread{b, 40, 0})
	step(nil, unread{a, 60, 0}, unread{b, 50, 0})
	step([]Reader{b}, unread{a, 60, 5}, unread{b, 50, 0})
	step(nil, unread{a, 60, 5})
	step(nil, unread{a, 60, 5}, unread{b, 30, 1}, unread{c, 40, 0}, unread{d, 5, 0})
	step([]Reader{c}, unread{a, 60, 6}, unread{b, 30, 2}, unread{c, 40, 0}, unread{d, 5, 0})
	step([]Reader{c, d, b}, unread{a, 70, 7}, unread{b, 100, 3}, unread{c, 40, 0}, unread{d, 5, 0})
}

// TestJoin: the readers of several listeners are limited together, and those of a listener
// that has left no longer. Without a listener nothing runs.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(0, 100, 0)
		slow, large, last := &reader{bytes: 30}, &reader{bytes: 90}, &reader{bytes: 200}
		leave := b.Join(func() []Reader { return []Reader{slow} })
		leaveToo := b.Join(func() []Reader { return []Reader{large} })
		advance := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		advance(Check + Check/2)
		if slow.gone.Load() || large.gone.Load() {
			t.Error("somebody is cut off at the first check")
		}
		advance(Check)
		if slow.gone.Load() || !large.gone.Load() {
			t.Errorf("small %v, large %v", slow.gone.Load(), large.gone.Load())
		}
		leave()
		leaveToo()
		synctest.Wait() // the test ends when all goroutines of the bubble have ended
		leave = b.Join(func() []Reader { return []Reader{last} })
		advance(3 * Check)
		leave()
		if !last.gone.Load() {
			t.Error("a listener that joins later is not limited")
		}
	})
}

// TestConnections: connections are accepted up to the limit, and one more when one has left.
func TestConnections(t *testing.T) {
	b := New(2, 0, 0)
	for i, want := range []bool{true, true, false, false} {
		if b.Enter() != want {
			t.Errorf("%d may enter: %v", i+1, !want)
		}
	}
	b.Leave()
	if !b.Enter() || b.Enter() {
		t.Error("not one more may enter when one has left")
	}
	var none *Limits
	if !none.Enter() || !New(0, 0, 0).Enter() || none.MaxConnections() != 0 || b.MaxConnections() != 2 {
		t.Error("without a limit a connection is refused")
	}
	none.Leave()
	none.Join(nil)()
}

// TestTrim: memory is returned once when many connections have ended and not come back for
// some time; and again when as many have come and ended again.
func TestTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(0, 1, 0)
		var freed atomic.Int64
		b.trim = func() { freed.Add(1) }
		leave := b.Join(func() []Reader { return nil })
		defer leave()
		times := func(n int, f func()) {
			for range n {
				f()
			}
			time.Sleep(2 * Check)
		}
		enter := func() { b.Enter() }
		wantTrims := func(want int64, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			if synctest.Wait(); freed.Load() != want {
				t.Errorf("memory was returned %d times, want %d", freed.Load(), want)
			}
		}
		times(trimDrop+500, enter)
		times(trimDrop-1, b.Leave)
		wantTrims(0, time.Minute)
		times(1, b.Leave)
		wantTrims(0, trimAfter-4*Check)
		times(1, enter) // starts the time again
		times(1, b.Leave)
		wantTrims(0, trimAfter-4*Check)
		wantTrims(1, time.Minute)
		times(trimDrop, enter)
		times(trimDrop, b.Leave)
		wantTrims(2, time.Minute)
	})
}
