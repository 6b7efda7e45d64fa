package body

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

// reusingPool returns a Pool that reuses memory, even with the race detector.
func reusingPool() *Pool { return &Pool{} }

// address identifies the memory of a Buffer.
func address(b *Buffer) *byte { return &b.Bytes()[0] }

// TestMemoryIsReused checks that the last Release, and no earlier one, makes the memory
// available to the next body of about that size.
func TestMemoryIsReused(t *testing.T) {
	p := reusingPool()
	a := p.Get(100 << 10)
	first := address(a)
	a.Retain()
	a.Release()
	if b := p.Get(100 << 10); address(b) == first {
		t.Fatal("the memory is reused although it is in use")
	}
	a.Release()
	if b := p.Get(101 << 10); address(b) != first {
		t.Error("the memory is not reused")
	} else if len(b.Bytes()) != 101<<10 || cap(b.Bytes()) != 101<<10 {
		t.Errorf("%d bytes with capacity %d, want %d", len(b.Bytes()), cap(b.Bytes()), 101<<10)
	}
}

// TestClasses checks that memory is large enough, not much too large, and only reused for
// bodies that fit into it.
func TestClasses(t *testing.T) {
	at := 0
	for size := smallest; size <= largest; size += 1 + size/97 {
		n, capacity := classOf(size)
		if capacity < size || capacity-size > capacity/9 || n < at || n >= numClasses {
			t.Fatalf("%d bytes: class %d of %d bytes", size, n, capacity)
		}
		if m, same := classOf(capacity); m != n || same != capacity {
			t.Fatalf("%d bytes: class %d of %d bytes, but its memory has class %d", size, n, capacity, m)
		}
		at = n
	}
	if n, capacity := classOf(largest); n != numClasses-1 || capacity != largest {
		t.Errorf("the largest memory has class %d of %d bytes", n, capacity)
	}
}

// TestNoBuffer checks that small bodies have no Buffer, and that a nil Buffer works.
func TestNoBuffer(t *testing.T) {
	b := reusingPool().Get(smallest - 1)
	if b != nil || b.Bytes() != nil {
		t.Errorf("a small body has the Buffer %v", b)
	}
	b.Retain()
	b.Release()
	b.Release()
}

// TestIdleIsBounded checks the limit of idle memory, and that memory beyond largest is not kept.
func TestIdleIsBounded(t *testing.T) {
	p := reusingPool()
	var all []*Buffer
	for range 3 * mostIdle / (1 << 20) {
		all = append(all, p.Get(1<<20))
	}
	all = append(all, p.Get(largest+1))
	for _, b := range all {
		b.Release()
	}
	if p.size != mostIdle {
		t.Errorf("%d bytes are kept, want %d", p.size, mostIdle)
	}
}

// TestTrim checks that Trim drops exactly the memory that was idle all the time.
func TestTrim(t *testing.T) {
	p := reusingPool()
	var all []*Buffer
	for range 10 {
		all = append(all, p.Get(1<<20))
	}
	for _, b := range all {
		b.Release()
	}
	p.Trim() // begins an interval
	for range 3 {
		a, b := p.Get(1<<20), p.Get(1<<20)
		a.Release()
		b.Release()
	}
	if p.Trim(); p.size != 2<<20 {
		t.Errorf("%d MiB are kept, 2 were used", p.size>>20)
	}
	if p.Trim(); p.size != 0 {
		t.Errorf("%d MiB are kept, none was used", p.size>>20)
	}
}

// TestReleaseTooOften checks that one Release too many never frees another body's memory, even
// in builds that do not detect it.
func TestReleaseTooOften(t *testing.T) {
	p := reusingPool()
	a := p.Get(1 << 20)
	a.Release()
	b := p.Get(1 << 20)
	func() {
		defer func() {
			if detected := recover() != nil; detected != poison {
				t.Errorf("detected: %v, want %v", detected, poison)
			}
		}()
		a.Release()
	}()
	if c := p.Get(1 << 20); address(c) == address(b) {
		t.Error("two bodies have the same memory")
	}
}

// TestPoison checks that a poisoned Pool overwrites memory at the last Release, returns dirty
// memory, and has a Buffer for every body.
func TestPoison(t *testing.T) {
	p := &Pool{poisoned: true}
	b := p.Get(5)
	if got := string(b.Bytes()); got != "\xdb\xdb\xdb\xdb\xdb" {
		t.Errorf("new memory is %q", got)
	}
	body := b.Bytes()
	copy(body, "hello")
	b.Retain()
	b.Release()
	if string(body) != "hello" {
		t.Errorf("%q, although it is in use", body)
	}
	if b.Release(); string(body) != "\xdb\xdb\xdb\xdb\xdb" {
		t.Errorf("%q after the last release", body)
	}
	if p.Get(0) != nil {
		t.Error("an empty body has a Buffer")
	}
}

// TestConcurrentUse passes Buffers between goroutines and checks that none ever contains the
// bytes of another.
func TestConcurrentUse(t *testing.T) {
	p := reusingPool()
	shared := make(chan *Buffer, 8)
	var makers, readers sync.WaitGroup
	for maker := range byte(4) {
		makers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(maker), 1))
			for range 500 {
				b := p.Get(smallest + random.IntN(64<<10))
				for i := range b.Bytes() {
					b.Bytes()[i] = maker
				}
				b.Retain()
				shared <- b
				if body := b.Bytes(); bytes.Count(body, body[:1]) != len(body) || body[0] != maker {
					t.Error("a body has changed")
				}
				b.Release()
			}
		})
		readers.Go(func() {
			for b := range shared {
				if body := b.Bytes(); bytes.Count(body, body[:1]) != len(body) {
					t.Error("a body is mixed from several")
				}
				b.Release()
			}
		})
	}
	makers.Wait()
	close(shared)
	readers.Wait()
}

// TestDroppedIsCollected checks that a garbage collection begins when much memory was dropped: of
// bodies too large to be kept, and of others beyond the limit of idle memory.
func TestDroppedIsCollected(t *testing.T) {
	for _, size := range []int{largest + 1, largest} {
		p := &Pool{}
		collections := func() uint32 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.NumGC
		}
		var buffers []*Buffer
		for total := 0; total < collectAfter+mostIdle; total += size {
			buffers = append(buffers, p.Get(size))
		}
		before := collections()
		for _, b := range buffers {
			b.Release()
		}
		for begun := time.Now(); collections() == before; time.Sleep(time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("%d bytes of bodies of %d were dropped, and nothing is collected", collectAfter, size)
			}
		}
	}
}
