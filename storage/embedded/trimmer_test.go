package embedded

import (
	"errors"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded/wal"
	"redstalk/tube"
)

// TestMemoryIsGivenBack: when a period of much traffic has ended, memory is returned, once, and
// not before.
func TestMemoryIsGivenBack(t *testing.T) {
	freed := make(chan struct{}, 10)
	clock := newFakeClock()
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

// TestCacheIsEmptied: the memory that is given back includes Pebble's cache. What was cached can
// be read again.
func TestCacheIsEmptied(t *testing.T) {
	o := (&disk{fs: newMem(), clock: newFakeClock(), segment: crashSegment}).options(t)
	if err := wal.MakeDir(o.fs, o.Dir); err != nil {
		t.Fatal(err)
	}
	opened, err := openTables(&o)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	in := opened.NewIngest(func() {})
	record := tube.Record{ID: 1, Tube: "t", State: tube.Ready, Size: 100_000}
	if err := errors.Join(in.PutJob(&record, make([]byte, 100_000), true), in.Commit()); err != nil {
		t.Fatal(err)
	}
	read := func() int64 {
		if body, err := opened.Body(1); err != nil || len(body) != 100_000 {
			t.Fatalf("the body has %d bytes (%v)", len(body), err)
		}
		return opened.CacheBytes()
	}
	e := newEngine(newFakeClock().now)
	e.journal, e.free = &journal{tables: opened}, func() {}
	for range 2 {
		if n := read(); n < 100_000 {
			t.Fatalf("the cache has only %d bytes of what was read", n)
		}
		e.giveBackMemory()
		if n := opened.CacheBytes(); n > 1000 {
			t.Errorf("the cache still has %d bytes", n)
		}
	}
}
