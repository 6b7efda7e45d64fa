package protocol

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestBodyIsNotCopied: a large body is read straight to where it stays, and its end
// comes with the commands after it.
func TestBodyIsNotCopied(t *testing.T) {
	const n = 1 << 20
	body := strings.Repeat("b", n)
	put := "put 0 0 1 1048576\r\n" + body + "\r\n"
	l := &lender{t: t}
	src := &countingVecs{vecPieces: vecPieces{pieces{put + put + "stats\r\n", whole}}}
	r := NewReader(src, n)
	r.UseBuffers(l.get)
	var c Command
	for range 2 {
		src.calls, src.toBuffer = 0, 0
		if more(t, r, &c); string(c.Body) != body {
			t.Error("the body differs")
		}
		c.Buffer.Release()
	}
	if src.calls > 1 || src.toBuffer > minBuffer {
		t.Errorf("the second body came with %d reads, of which %d bytes went to the buffer", src.calls, src.toBuffer)
	}
	if more(t, r, &c); c.Verb != Stats || src.calls > 1 {
		t.Errorf("%v after %d reads", c.Verb, src.calls)
	}
	if l.lent != 0 || len(r.buf) != minBuffer {
		t.Errorf("%d Buffers are lent, the buffer has %d bytes", l.lent, len(r.buf))
	}
}

// countingVecs counts calls, and the bytes that they read to the last slice.
type countingVecs struct {
	vecPieces
	calls, toBuffer int
}

func (c *countingVecs) Read(b []byte) (int, error) {
	n, err := c.vecPieces.Read(b)
	c.calls++
	c.toBuffer += n
	return n, err
}

func (c *countingVecs) ReadVec(to [][]byte) (int, error) {
	n, err := c.vecPieces.ReadVec(to)
	c.calls++
	c.toBuffer += max(n-len(to[0]), 0)
	return n, err
}

// TestAnnouncedSizeIsBelievedLater: once a body has come, room for one of that size is
// made at once, and not for a larger one.
func TestAnnouncedSizeIsBelievedLater(t *testing.T) {
	const n = 10 * maxBuffer
	pipe := &drip{}
	r := NewReader(pipe, 1<<30)
	var c Command
	begin := func(line string) int {
		pipe.add(line)
		r.Next(&c)
		r.Fill()
		r.Next(&c)
		return len(r.body)
	}
	if room := begin("put 0 0 1 655360\r\n"); room != maxBuffer {
		t.Errorf("room for %d bytes before anything has come, want %d", room, maxBuffer)
	}
	pipe.add(strings.Repeat("x", n) + "\r\n")
	more(t, r, &c)
	if room := begin("put 0 0 1 655359\r\n"); room != n-1 {
		t.Errorf("room for %d bytes, want %d", room, n-1)
	}
	pipe.add(strings.Repeat("x", n-1) + "\r\n")
	more(t, r, &c)
	if room := begin("put 0 0 1 1073741824\r\n"); room != n {
		t.Errorf("room for %d bytes of a gigabyte, want %d", room, n)
	}
}

// TestGrown: room at most doubles, and what follows in the end is the size itself, of
// which all steps together are no more than about twice.
func TestGrown(t *testing.T) {
	for size := maxBuffer + 1; size < 1<<30; size += 1 + size/7 {
		sum, have := 0, maxBuffer
		for have < size {
			next := grown(have, size)
			if next <= have || next > 2*have || next > size {
				t.Fatalf("after %d of %d bytes follow %d", have, size, next)
			}
			have, sum = next, sum+next
		}
		if sum > 2*size+64 {
			t.Errorf("%d bytes are allocated for %d", sum, size)
		}
	}
}

// TestWriterReleases: bodies are released once, when they are sent or copied, or when
// they never will be.
func TestWriterReleases(t *testing.T) {
	for _, size := range []int{1, byReference - 1, byReference, 3 * byReference} {
		for name, fault := range map[string]error{"sent": nil, "failed": errors.New("failed")} {
			l, out := &lender{t: t}, &bytes.Buffer{}
			w := NewWriter(writerFunc(func(p []byte) (int, error) {
				out.Write(p)
				return len(p), fault
			}))
			want := ""
			for i := range 3 {
				b := l.get(size)
				copy(b.Bytes(), bytes.Repeat([]byte("abc")[i:i+1], size))
				w.Reserved(uint64(i), b.Bytes(), b)
				want += "RESERVED " + itoa(i) + " " + itoa(size) + "\r\n" + strings.Repeat("abc"[i:i+1], size) + "\r\n"
			}
			if err := w.Flush(); err != fault || fault == nil && out.String() != want {
				t.Errorf("%d bytes, %s: %v, or the bytes differ", size, name, err)
			}
			if l.lent != 0 {
				t.Errorf("%d bytes, %s: %d Buffers are not released", size, name, l.lent)
			}
		}
	}
}

// keeper is a destination that keeps bodies.
type keeper struct {
	pieces []Piece
	copied bytes.Buffer // of the others
}

func (k *keeper) Write(p []byte) (int, error) { return k.copied.Write(p) }

func (k *keeper) WriteVec(pieces []Piece) error {
	for _, p := range pieces {
		if p.Body {
			k.pieces = append(k.pieces, p)
		} else {
			k.copied.Write(p.Bytes)
		}
	}
	return nil
}

// TestDestinationKeepsBodies: a destination may keep bodies, and the Writer leaves them
// to it.
func TestDestinationKeepsBodies(t *testing.T) {
	l, k := &lender{t: t}, &keeper{}
	w := NewWriter(k)
	for i := range 3 {
		b := l.get(byReference)
		copy(b.Bytes(), bytes.Repeat([]byte("abc")[i:i+1], byReference))
		w.Found(uint64(i), b.Bytes(), b)
		w.Flush()
	}
	w.Deleted()
	w.Flush()
	for i, p := range k.pieces {
		if string(p.Bytes) != strings.Repeat("abc"[i:i+1], byReference) {
			t.Errorf("body %d has changed", i)
		}
		p.Release()
	}
	if l.lent != 0 || k.copied.String() != "FOUND 0 4096\r\n\r\nFOUND 1 4096\r\n\r\nFOUND 2 4096\r\n\r\nDELETED\r\n" {
		t.Errorf("%d Buffers are not released; beside bodies came %q", l.lent, k.copied.String())
	}
}
