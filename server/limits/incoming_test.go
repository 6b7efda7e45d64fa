package limits

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// upload is a body that is being received.
type upload struct {
	*Arrival
	goes, gone atomic.Bool
}

func newUpload(b *Limits) *upload {
	u := new(upload)
	u.Arrival = b.Arrive(func() { u.goes.Store(true) }, func() { u.gone.Store(true) })
	return u
}

// TestIncoming: room is reserved for whole bodies, in order; one may exceed the limit.
// Bodies that arrive slowly while others wait give way, the largest first, and none does
// without need.
func TestIncoming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		b := New(0, 0, 10*mib)
		advance := func() {
			time.Sleep(Check)
			synctest.Wait()
		}
		large, small, quick, late, last := newUpload(b), newUpload(b), newUpload(b), newUpload(b), newUpload(b)
		if !large.Reserve(1000, 6*mib) || !small.Reserve(1000, mib) || !large.Reserve(5*mib, 6*mib) {
			t.Error("there is room, and it is refused")
		}
		if !quick.Reserve(1000, 4*mib) {
			t.Error("no body may exceed the limit")
		}
		advance()
		advance()
		if large.gone.Load() {
			t.Error("it has to give way, and nobody waits")
		}
		if late.Reserve(1000, 2*mib) || last.Reserve(1000, 6*mib) || late.Reserve(1000, 2*mib) {
			t.Error("they are admitted out of order")
		}
		for i := range 3 {
			if large.gone.Load() != (i == 2) {
				t.Errorf("after %d checks: large gives way: %v", i, large.gone.Load())
			}
			quick.Received(uint64(i+1) * minReceived)
			advance()
		}
		if small.gone.Load() || quick.gone.Load() || late.gone.Load() || late.goes.Load() {
			t.Error("another one gives way, or late continues too early")
		}
		if large.End(); !late.goes.Load() || !last.goes.Load() || !late.Reserve(2*mib, 2*mib) {
			t.Error("there is room, and they do not continue") // last exceeds the limit
		}
		for _, u := range []*upload{small, quick, late, last} {
			u.End()
		}
		advance()
		if in := &b.incoming; in.sum != 0 || len(in.all) != 0 || in.overLimit != nil || in.checks != nil {
			t.Errorf("%d bytes of %d are left", in.sum, len(in.all))
		}
	})
}

// TestIncomingUnannounced: bodies of unknown size get room as they grow, and one of them can
// always continue.
func TestIncomingUnannounced(t *testing.T) {
	const mib = 1 << 20
	b := New(0, 0, 10*mib)
	one, two := newUpload(b), newUpload(b)
	if !one.Reserve(2*mib, -1) || !two.Reserve(3*mib, -1) || !one.Reserve(4*mib, -1) || !two.Reserve(5*mib, -1) {
		t.Error("there is room, and it is refused")
	}
	if two.Reserve(7*mib, -1); !two.Reserve(100*mib, -1) || one.Reserve(6*mib, -1) {
		t.Error("more or less than one exceeds the limit")
	}
	if two.End(); !one.goes.Load() {
		t.Error("it does not continue")
	}
	one.End()
	var none *Limits
	if !none.Arrive(nil, nil).Reserve(mib, mib) || !New(0, 0, 0).Arrive(nil, nil).Reserve(mib, mib) {
		t.Error("there is no limit, and it is refused")
	}
}
