package conn

import (
	"bytes"
	"errors"
	"testing"
	"unsafe"
)

// vecTaker takes pieces, a few bytes at a time, and remembers where they were.
type vecTaker struct {
	bytes.Buffer
	pieces [][]byte
	most   int // bytes at a time
}

func (v *vecTaker) writeSome(pieces [][]byte) (int, error) {
	v.pieces = append(v.pieces, pieces...)
	left := v.most
	for _, piece := range pieces {
		n := min(left, len(piece))
		v.Write(piece[:n])
		left -= n
	}
	return v.most - left, nil
}

func (v *vecTaker) WriteVec(pieces [][]byte) (sent int, err error) {
	for len(pieces) > 0 {
		n, _ := v.writeSome(pieces)
		pieces, sent = unwritten(pieces, n), sent+n
	}
	return sent, nil
}

// TestOutgoing: all that was appended is written in its order, however little is taken at a
// time, and large texts without being copied.
func TestOutgoing(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1000, ownPiece, 1 << 20} {
		to := &vecTaker{most: most}
		o, large := outgoing{to: to}, bytes.Repeat([]byte("x"), 3*ownPiece)
		var want bytes.Buffer
		for i := range 200 {
			for _, text := range [][]byte{bytes.Repeat([]byte{byte(i)}, i), large, bytes.Repeat([]byte{byte(i)}, ownPiece-1), nil} {
				o.Write(text)
				want.Write(text)
			}
			o.WriteString("end\r\n")
			want.WriteString("end\r\n")
		}
		if err := o.Flush(); err != nil || !bytes.Equal(to.Bytes(), want.Bytes()) {
			t.Errorf("%d at a time: %d bytes were written, want %d; %v", most, to.Len(), want.Len(), err)
		}
		copied := true
		for _, piece := range to.pieces {
			copied = copied && unsafe.SliceData(piece) != unsafe.SliceData(large)
		}
		if copied {
			t.Errorf("%d at a time: a large text was copied", most)
		}
	}
}

// refuser fails.
type refuser struct{ n int }

func (r *refuser) Write([]byte) (int, error) {
	r.n++
	return 0, errors.ErrUnsupported
}

// TestOutgoingFails: the first error is returned, and nothing is written after it.
func TestOutgoingFails(t *testing.T) {
	to := &refuser{}
	o := outgoing{to: to}
	for range 100 {
		o.Write(make([]byte, ownPiece-1))
	}
	if err := o.Flush(); !errors.Is(err, errors.ErrUnsupported) || to.n != 1 {
		t.Errorf("%v after %d writes", err, to.n)
	}
}
