package embedded

import (
	"testing"
	"time"

	"redstalk/storage"
)

// TestMemoryIsGivenBack: when much traffic has ended memory is given back, once, and
// not before.
func TestMemoryIsGivenBack(t *testing.T) {
	freed := make(chan struct{}, 10)
	clock := newHandClock()
	e := newEngine(clock.now)
	e.free = func() { freed <- struct{}{} }
	second := func(batches int) (n int) {
		for range batches {
			do(t, e, storage.Op{Kind: storage.Put, Tube: "a"})
		}
		clock.advance(time.Second)
		if _, err := e.Tick(); err != nil {
			t.Error(err)
		}
		e.freeing.Wait()
		for ; len(freed) > 0; n++ {
			<-freed
		}
		return n
	}
	for range 40 {
		if second(100) != 0 {
			t.Fatal("memory is given back with traffic going on")
		}
	}
	n := 0
	for range 60 {
		n += second(1)
	}
	if n != 1 {
		t.Errorf("after the traffic memory is given back %d times, want once", n)
	}
	for range 60 {
		if second(0) != 0 {
			t.Error("memory is given back without any traffic before")
		}
	}
}
