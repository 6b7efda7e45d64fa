package limits

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// upload is a body that is on its way.
type upload struct {
	*Arrival
	goes, gone atomic.Bool
}

func newUpload(b *Bounds) *upload {
	u := new(upload)
	u.Arrival = b.Arrive(func() { u.goes.Store(true) }, func() { u.gone.Store(true) })
	return u
}

// TestIncoming: room is set aside for whole bodies, in turn; one may go beyond the bound. Who sends
// slowly while others wait gives way, the largest first, and nobody does without need.
func TestIncoming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		b := New(0, 0, 10*mib)
		pass := func() {
			time.Sleep(Check)
			synctest.Wait()
		}
		large, small, quick, late, last := newUpload(b), newUpload(b), newUpload(b), newUpload(b), newUpload(b)
		if !large.Reserve(1000, 6*mib) || !small.Reserve(1000, mib) || !large.Reserve(5*mib, 6*mib) {
			t.Error("there is room, and it is not given")
		}
		if !quick.Reserve(1000, 4*mib) {
			t.Error("nobody is beyond the bound")
		}
		pass()
		pass()
		if large.gone.Load() {
			t.Error("it has to give way, and nobody waits")
		}
		if late.Reserve(1000, 2*mib) || last.Reserve(1000, 6*mib) || late.Reserve(1000, 2*mib) {
			t.Error("they are let in out of turn")
		}
		for i := range 3 {
			if large.gone.Load() != (i == 2) {
				t.Errorf("after %d checks: large gives way: %v", i, large.gone.Load())
			}
			quick.Came(uint64(i+1) * leastReceived)
			pass()
		}
		if small.gone.Load() || quick.gone.Load() || late.gone.Load() || late.goes.Load() {
			t.Error("another one gives way, or late goes on too early")
		}
		if large.End(); !late.goes.Load() || !last.goes.Load() || !late.Reserve(2*mib, 2*mib) {
			t.Error("there is room, and they do not go on") // last goes beyond the bound
		}
		for _, u := range []*upload{small, quick, late, last} {
			u.End()
		}
		pass()
		if in := &b.incoming; in.sum != 0 || len(in.all) != 0 || in.first != nil || in.checks != nil {
			t.Errorf("%d bytes of %d are left", in.sum, len(in.all))
		}
	})
}

// TestIncomingUnannounced: bodies whose size is not known get room as they grow, and one of them
// can always go on.
func TestIncomingUnannounced(t *testing.T) {
	const mib = 1 << 20
	b := New(0, 0, 10*mib)
	one, two := newUpload(b), newUpload(b)
	if !one.Reserve(2*mib, -1) || !two.Reserve(3*mib, -1) || !one.Reserve(4*mib, -1) || !two.Reserve(5*mib, -1) {
		t.Error("there is room, and it is not given")
	}
	if two.Reserve(7*mib, -1); !two.Reserve(100*mib, -1) || one.Reserve(6*mib, -1) {
		t.Error("not just one goes beyond the bound")
	}
	if two.End(); !one.goes.Load() {
		t.Error("it does not go on")
	}
	one.End()
	var none *Bounds
	if !none.Arrive(nil, nil).Reserve(mib, mib) || !New(0, 0, 0).Arrive(nil, nil).Reserve(mib, mib) {
		t.Error("nothing is bounded, and it is not let in")
	}
}
