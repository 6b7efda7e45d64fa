package wal

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestHeaderAmongZeros: a header is found at every offset among zeros, however few of them
// follow it.
func TestHeaderAmongZeros(t *testing.T) {
	const size = 3 * int64(len(blank))
	for offset := int64(0); offset+HeaderSize <= size; offset += align {
		for _, end := range []int64{offset + HeaderSize, size} {
			data := make([]byte, end)
			putHeader(data[offset:], position{1, offset}, frame{synced: 64})
			if got := syncedAfter(data, position{1, 0}); got != 64 {
				t.Errorf("with a header at %d of %d bytes: %d bytes are known to be synced", offset, end, got)
			}
		}
	}
}

// TestFill: a segment is filled with zeros, even if the file system changes the data that it is
// given to write.
func TestFill(t *testing.T) {
	const size = 1<<20 + 100
	fs := vfs.NewMem()
	f, err := fs.Create("zeros", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(&invertingFile{f}, size); err != nil {
		t.Fatal(err)
	}
	data, err := readFile(fs, "zeros", nil)
	if err != nil || len(data) != size {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	for i, b := range data {
		if b != 0 {
			t.Fatalf("byte %d is %#x", i, b)
		}
	}
}

// invertingFile inverts what it is given after it has written it.
type invertingFile struct{ vfs.File }

func (f *invertingFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(append([]byte(nil), p...))
	for i := range p {
		//lint:ignore SA1023 a vfs.File may change what it is given
		p[i] = ^p[i]
	}
	return n, err
}
