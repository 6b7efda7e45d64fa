package embedded

import (
	"bytes"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"redstalk/storage"
	"redstalk/storage/storetest"
	"redstalk/tube"
)

// logged returns the content of all files of the log.
func logged(t *testing.T, fs *memFS, dir string) (all []byte) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "log.") || name == "log.new" { // being prepared
			continue
		}
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		all = append(all, content...)
	}
	return all
}

// TestBodyOfDeletedJobIsWritten: the log contains the body as it was put, even if the job was
// deleted before the body was written. A power cut may leave the put without the delete.
func TestBodyOfDeletedJobIsWritten(t *testing.T) {
	d := newDisk()
	o := d.options(t)
	e := mustOpen(t, o)
	body := bytes.Repeat([]byte("as it was put "), 10_000)
	put := []storage.Op{{Kind: storage.Put, Tube: "a", Body: body}}
	storetest.Lend(put)
	var done atomic.Int64
	e.Do(counted(&done, put...), counted(&done, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: 1}))
	if done.Load() != 2 || !bytes.Contains(logged(t, d.fs, o.Dir), body) {
		t.Errorf("%d batches are done; the body is not in the log as it was put", done.Load())
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestRefusedBodyIsReleased: a store that refuses a body releases it.
func TestRefusedBodyIsReleased(t *testing.T) {
	e := NewMemory()
	e.Close()
	put := []storage.Op{{Kind: storage.Put, Tube: "a", Body: bytes.Repeat([]byte("x"), 10_000)}}
	storetest.Lend(put)
	put[0].Buffer.Retain()
	if storage.DoWait(e, put); put[0].Answer.Err == nil {
		t.Fatal("a closed store has accepted a job")
	}
	if put[0].Buffer.Release(); put[0].Buffer.Bytes() != nil {
		t.Error("the store has not released the body")
	}
}
