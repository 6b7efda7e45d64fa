package wal

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestPieces: a frame that is written in pieces is the same as if it was written at once,
// wherever it is split.
func TestPieces(t *testing.T) {
	var want [][]byte
	open := func(fs vfs.FS, replay func([]byte) error) *Log {
		l, err := Open(Options{FS: fs, Dir: "log", Size: 1 << 20, Log: slog.New(slog.DiscardHandler), Fatal: func(err error) { t.Error(err) }}, 0, replay)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	none := func([]byte) error { return nil }
	whole, cut := vfs.NewMem(), vfs.NewMem()
	for _, fs := range []vfs.FS{whole, cut} {
		if err := fs.MkdirAll("log", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a, b := open(whole, none), open(cut, none)
	for size := range 40 {
		payload := []byte(fmt.Sprintf("%0*d", size+1, 7))
		want = append(want, payload)
		frame := append(make([]byte, HeaderSize), payload...)
		first, second := HeaderSize+size/3, HeaderSize+size/2
		pieces := [][]byte{bytes.Clone(frame[:first]), frame[first:second], frame[second:]}
		if err := b.AppendPieces(pieces); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Append(bytes.Clone(frame)); err != nil {
			t.Fatal(err)
		}
	}
	if a.end != b.end {
		t.Errorf("the log ends at %d, and in pieces at %d", a.end, b.end)
	}
	for _, l := range []*Log{a, b} {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, fs := range map[string]vfs.FS{"whole": whole, "pieces": cut} {
		var got [][]byte
		l := open(fs, func(p []byte) error { got = append(got, bytes.Clone(p)); return nil })
		if len(got) != len(want) {
			t.Errorf("%s: %d frames are replayed, want %d", name, len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%s: frame %d is %q, want %q", name, i, got[i], want[i])
			}
		}
		l.Close()
	}
}

// TestLongPieces: a piece that is written in parts is replayed as it was.
func TestLongPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fs := newMem(t)
	o := options(t, fs, dir)
	o.Size = 1 << 20
	l, _ := mustOpen(t, o, 0)
	var want []string
	for _, size := range []int{cached - 1, cached, cached + 1, 3*cached + 5, 0} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(r.Uint32())
		}
		head := append(make([]byte, HeaderSize), "head"...)
		if err := l.AppendPieces([][]byte{head, body, nil, body[:size/2]}); err != nil {
			t.Fatal(err)
		}
		want = append(want, "head"+string(body)+string(body[:size/2]))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, got := mustOpen(t, o, 0)
	defer l.Close()
	if !slices.Equal(got, want) {
		t.Errorf("%d frames are replayed, or others than were written; want %d", len(got), len(want))
	}
}
