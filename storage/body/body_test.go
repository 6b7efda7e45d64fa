package body

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

// keeping returns a Pool that uses memory again, also with the race detector.
func keeping() *Pool { return &Pool{} }

// address tells one memory from another.
func address(b *Buffer) *byte { return &b.Bytes()[0] }

// TestMemoryIsUsedAgain: with the last Release, not before, the memory is there for
// the next body of about that size.
func TestMemoryIsUsedAgain(t *testing.T) {
	p := keeping()
	a := p.Get(100 << 10)
	first := address(a)
	a.Retain()
	a.Release()
	if b := p.Get(100 << 10); address(b) == first {
		t.Fatal("the memory is given out again although it is in use")
	}
	a.Release()
	if b := p.Get(101 << 10); address(b) != first {
		t.Error("the memory is not used again")
	} else if len(b.Bytes()) != 101<<10 || cap(b.Bytes()) != 101<<10 {
		t.Errorf("%d bytes with room for %d, want %d", len(b.Bytes()), cap(b.Bytes()), 101<<10)
	}
}

// TestClasses: memory is large enough, not much too large, and only used again for
// bodies that fit into it.
func TestClasses(t *testing.T) {
	at := 0
	for size := smallest; size <= largest; size += 1 + size/97 {
		n, room := classOf(size)
		if room < size || room-size > room/9 || n < at || n >= numClasses {
			t.Fatalf("%d bytes: class %d of %d bytes", size, n, room)
		}
		if m, same := classOf(room); m != n || same != room {
			t.Fatalf("%d bytes: class %d of %d bytes, whose memory goes to class %d", size, n, room, m)
		}
		at = n
	}
	if n, room := classOf(largest); n != numClasses-1 || room != largest {
		t.Errorf("the largest memory has class %d of %d bytes", n, room)
	}
}

// TestNoBuffer: small bodies have no Buffer, and none needs no care.
func TestNoBuffer(t *testing.T) {
	b := keeping().Get(smallest - 1)
	if b != nil || b.Bytes() != nil {
		t.Errorf("a small body has the Buffer %v", b)
	}
	b.Retain()
	b.Release()
	b.Release()
}

// TestIdleIsBounded: what is kept has a limit, and memory beyond largest is not kept.
func TestIdleIsBounded(t *testing.T) {
	p := keeping()
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

// TestTrim: what was idle all the time is left to the collector, and nothing else.
func TestTrim(t *testing.T) {
	p := keeping()
	var all []*Buffer
	for range 10 {
		all = append(all, p.Get(1<<20))
	}
	for _, b := range all {
		b.Release()
	}
	p.Trim() // begins to look
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

// TestReleaseTooMany: it frees nothing that belongs to somebody else, even where it is
// not noticed.
func TestReleaseTooMany(t *testing.T) {
	p := keeping()
	a := p.Get(1 << 20)
	a.Release()
	b := p.Get(1 << 20)
	func() {
		defer func() {
			if noticed := recover() != nil; noticed != poison {
				t.Errorf("noticed: %v, want %v", noticed, poison)
			}
		}()
		a.Release()
	}()
	if c := p.Get(1 << 20); address(c) == address(b) {
		t.Error("the memory of one body is that of another")
	}
}

// TestPoison: a poisoned Pool overwrites memory at the last Release, gives out dirty
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

// TestManyUsers: goroutines that hand Buffers to each other never find another's
// bytes in them.
func TestManyUsers(t *testing.T) {
	p := keeping()
	handed := make(chan *Buffer, 8)
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
				handed <- b
				if body := b.Bytes(); bytes.Count(body, body[:1]) != len(body) || body[0] != maker {
					t.Error("a body has changed")
				}
				b.Release()
			}
		})
		readers.Go(func() {
			for b := range handed {
				if body := b.Bytes(); bytes.Count(body, body[:1]) != len(body) {
					t.Error("a body is mixed from several")
				}
				b.Release()
			}
		})
	}
	makers.Wait()
	close(handed)
	readers.Wait()
}

// TestLeftIsCollected: the collector is told when much was left to it, of bodies too large to be
// kept and of others beyond what is kept.
func TestLeftIsCollected(t *testing.T) {
	for _, size := range []int{largest + 1, largest} {
		p := &Pool{}
		collections := func() uint32 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.NumGC
		}
		var buffers []*Buffer
		for kept := 0; kept < collectAfter+mostIdle; kept += size {
			buffers = append(buffers, p.Get(size))
		}
		before := collections()
		for _, b := range buffers {
			b.Release()
		}
		for begun := time.Now(); collections() == before; time.Sleep(time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("%d bytes of bodies of %d were left, and nothing is collected", collectAfter, size)
			}
		}
	}
}
