package limits

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// reader is a client with so much to read.
type reader struct {
	bytes int64
	read  uint64
	gone  atomic.Bool
}

func (r *reader) Unread() (int64, uint64) { return r.bytes, r.read }
func (r *reader) GiveWay()                { r.gone.Store(true) }

// TestGuard: who reads nothing goes before who reads something, then who has most unread;
// nobody goes the first time, nor without need.
func TestGuard(t *testing.T) {
	a, b, c, d := new(reader), new(reader), new(reader), new(reader)
	g := guard{most: 100}
	step := func(want []Reader, all ...unread) {
		t.Helper()
		if got := g.inspect(all); !slices.Equal(got, want) {
			t.Errorf("%d have to go, want %d", len(got), len(want))
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

// TestJoin: the readers of several listeners are bounded together, those of a listener that has left
// no more; without any listener nothing runs.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(0, 100, 0)
		slow, large, last := &reader{bytes: 30}, &reader{bytes: 90}, &reader{bytes: 200}
		leave := b.Join(func() []Reader { return []Reader{slow} })
		leaveToo := b.Join(func() []Reader { return []Reader{large} })
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		pass(Check + Check/2)
		if slow.gone.Load() || large.gone.Load() {
			t.Error("somebody goes the first time")
		}
		pass(Check)
		if slow.gone.Load() || !large.gone.Load() {
			t.Errorf("small %v, large %v", slow.gone.Load(), large.gone.Load())
		}
		leave()
		leaveToo()
		synctest.Wait() // the test ends when all goroutines of the bubble have
		leave = b.Join(func() []Reader { return []Reader{last} })
		pass(3 * Check)
		leave()
		if !last.gone.Load() {
			t.Error("who comes later is not bounded")
		}
	})
}

// TestConnections: as many as there may be, and another one when one has left.
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
	var none *Bounds
	if !none.Enter() || !New(0, 0, 0).Enter() || none.MaxConnections() != 0 || b.MaxConnections() != 2 {
		t.Error("without a bound not everybody may enter")
	}
	none.Leave()
	none.Join(nil)()
}

// TestCrowd: memory is given back once when many connections have gone, and not come back for some
// time; and again when as many have come and gone again.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(0, 1, 0)
		var freed atomic.Int64
		b.free = func() { freed.Add(1) }
		leave := b.Join(func() []Reader { return nil })
		defer leave()
		times := func(n int, f func()) {
			for range n {
				f()
			}
			time.Sleep(2 * Check)
		}
		enter := func() { b.Enter() }
		is := func(want int64, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			if synctest.Wait(); freed.Load() != want {
				t.Errorf("memory was given back %d times, want %d", freed.Load(), want)
			}
		}
		times(crowd+500, enter)
		times(crowd-1, b.Leave)
		is(0, time.Minute)
		times(1, b.Leave)
		is(0, crowdGone-4*Check)
		times(1, enter) // which begins the time anew
		times(1, b.Leave)
		is(0, crowdGone-4*Check)
		is(1, time.Minute)
		times(crowd, enter)
		times(crowd, b.Leave)
		is(2, time.Minute)
	})
}
