package embedded

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"redstalk/storage"
	"redstalk/tube"
)

// unpack unpacks a .tar.gz into a new directory.
func unpack(t *testing.T, archive string) (dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o755)
		} else {
			data, readErr := io.ReadAll(r)
			err = errors.Join(readErr, os.WriteFile(path, data, 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestOlderDirectory opens the directory of an older program, killed with -9, whose
// segments do not say how long they are. Jobs 1 to 60 and 86 to 95 were put into tube
// a. Every third one of the former has 1000 dots, the others have 100. Jobs 1 to 10
// are deleted, and so is all that was put in between. Jobs 11 to 15 are buried.
func TestOlderDirectory(t *testing.T) {
	o := Options{Dir: unpack(t, "testdata/without-size.tar.gz"), FileSize: minFileSize, Log: slog.New(slog.DiscardHandler)}
	for range 2 { // the second one finds what the first has made of it
		e := mustOpen(t, o)
		for id := uint64(1); id <= 96; id++ {
			checkOlder(t, e, id)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	e := mustOpen(t, o)
	if id := do(t, e, storage.Op{Kind: storage.Put, Tube: "a", Body: []byte("new")})[0].Answer.ID; id != 96 {
		t.Errorf("the next job is %d, want 96", id)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkOlder(t *testing.T, e *Engine, id uint64) {
	t.Helper()
	ops := []storage.Op{{Kind: storage.Peek, ID: id}, {Kind: storage.JobStats, ID: id}}
	storage.DoWait(e, ops)
	body, stats := &ops[0].Answer, &ops[1].Answer
	if id <= 10 || id > 60 && id < 86 || id > 95 {
		if !body.NotFound {
			t.Errorf("job %d is back", id)
		}
		return
	}
	dots, want := 100, tube.Ready
	if id <= 60 && id%3 == 0 {
		dots = 1000
	}
	if id >= 11 && id <= 15 {
		want = tube.Buried
	}
	text := fmt.Sprintf("job %d ", id)
	if string(body.Body[:min(len(body.Body), len(text))]) != text || len(body.Body) != len(text)+dots {
		t.Errorf("job %d has the body %.20q of %d bytes (%v)", id, body.Body, len(body.Body), body.Err)
	}
	if stats.Job == nil || stats.Job.State != want {
		t.Errorf("job %d: %+v", id, stats.Job)
	}
}
