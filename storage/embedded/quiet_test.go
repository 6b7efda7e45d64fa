package embedded

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

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

// TestCacheIsEmptied: memory that is given back includes what was kept of the tables, which can be
// read again.
func TestCacheIsEmptied(t *testing.T) {
	o := (&disk{fs: newMem(), clock: newHandClock(), segment: crashSegment}).options(t)
	if err := makeDir(o.fs, o.Dir); err != nil {
		t.Fatal(err)
	}
	its, err := openTables(&o)
	if err != nil {
		t.Fatal(err)
	}
	defer its.close()
	key := []byte("key")
	if err := errors.Join(its.db.Set(key, make([]byte, 100_000), pebble.NoSync), its.db.Flush()); err != nil {
		t.Fatal(err)
	}
	read := func() int64 {
		_, closer, err := its.db.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		closer.Close()
		return its.cache.Metrics().Size
	}
	e := newEngine(newHandClock().now)
	e.journal, e.free = &journal{tables: its}, func() {}
	for range 2 {
		if n := read(); n < 100_000 {
			t.Fatalf("%d bytes are kept of what was read", n)
		}
		e.giveBackMemory()
		if n := its.cache.Metrics().Size; n > 1000 {
			t.Errorf("%d bytes are kept", n)
		}
	}
}
