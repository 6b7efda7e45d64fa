package protocol

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestBodyIsNotCopied checks that a large body is read directly into its final memory, and
// its end together with the commands after it.
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
		t.Errorf("the second body took %d reads, and %d bytes of them went to the buffer", src.calls, src.toBuffer)
	}
	if more(t, r, &c); c.Verb != Stats || src.calls > 1 {
		t.Errorf("%v after %d reads", c.Verb, src.calls)
	}
	if l.unreleased != 0 || len(r.buf) != minBuffer {
		t.Errorf("%d Buffers are not released, the buffer has %d bytes", l.unreleased, len(r.buf))
	}
}

// countingVecs counts calls, and the bytes that they read into the last slice.
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

// TestAnnouncedSizeIsTrustedLater checks that after a body has arrived, memory for one of that
// size is allocated at once, but not for a larger one.
func TestAnnouncedSizeIsTrustedLater(t *testing.T) {
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
	if size := begin("put 0 0 1 655360\r\n"); size != maxBuffer {
		t.Errorf("memory for %d bytes before anything has arrived, want %d", size, maxBuffer)
	}
	pipe.add(strings.Repeat("x", n) + "\r\n")
	more(t, r, &c)
	if size := begin("put 0 0 1 655359\r\n"); size != n-1 {
		t.Errorf("memory for %d bytes, want %d", size, n-1)
	}
	pipe.add(strings.Repeat("x", n-1) + "\r\n")
	more(t, r, &c)
	if size := begin("put 0 0 1 1073741824\r\n"); size != n {
		t.Errorf("memory for %d bytes of a gigabyte, want %d", size, n)
	}
}

// TestGrown checks that memory at most doubles, that the last step gives the size itself, and
// that all steps together are no more than about twice the size.
func TestGrown(t *testing.T) {
	for size := maxBuffer + 1; size < 1<<30; size += 1 + size/7 {
		sum, have := 0, maxBuffer
		for have < size {
			next := grown(have, size)
			if next <= have || next > 2*have || next > size {
				t.Fatalf("after %d of %d bytes the next step is %d", have, size, next)
			}
			have, sum = next, sum+next
		}
		if sum > 2*size+64 {
			t.Errorf("%d bytes are allocated for %d", sum, size)
		}
	}
}

// TestWriterReleases checks that bodies are released once: when they are sent or copied, or
// when they never will be.
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
			if l.unreleased != 0 {
				t.Errorf("%d bytes, %s: %d Buffers are not released", size, name, l.unreleased)
			}
		}
	}
}

// keeper is a destination that keeps bodies.
type keeper struct {
	pieces []Piece
	copied bytes.Buffer // pieces that are no bodies
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

// TestDestinationKeepsBodies checks that a destination can keep bodies, and that the Writer does
// not release them.
func TestDestinationKeepsBodies(t *testing.T) {
	l, k := &lender{t: t}, &keeper{}
	w := NewWriter(k)
	for i := range 3 {
		b := l.get(byReference)
		copy(b.Bytes(), bytes.Repeat([]byte("abc")[i:i+1], byReference))
		w.Found(uint64(i), b.Bytes(), b)
		w.Flush()
	}
	w.Done(Delete)
	w.Flush()
	for i, p := range k.pieces {
		if string(p.Bytes) != strings.Repeat("abc"[i:i+1], byReference) {
			t.Errorf("body %d has changed", i)
		}
		p.Release()
	}
	if l.unreleased != 0 || k.copied.String() != "FOUND 0 4096\r\n\r\nFOUND 1 4096\r\n\r\nFOUND 2 4096\r\n\r\nDELETED\r\n" {
		t.Errorf("%d Buffers are not released; the other pieces are %q", l.unreleased, k.copied.String())
	}
}
