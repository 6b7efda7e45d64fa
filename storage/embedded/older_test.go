package embedded

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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

// TestLayout3 opens a directory of layout 3, whose program was killed with -9. jobs.txt says
// which jobs it had, see layout3Job. There are some in the tables, some in the log and some in
// both; two tubes are paused. After that the directory has the present layout.
func TestLayout3(t *testing.T) {
	dir := unpack(t, "../../testdata/older/embedded-3.tar.gz")
	text, err := os.ReadFile(filepath.Join(dir, "jobs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	o := Options{Dir: filepath.Join(dir, "jobs"), FileSize: minFileSize, Log: slog.New(slog.DiscardHandler)}
	for round := range 3 { // the later ones find what the first has made of it
		e := mustOpen(t, o)
		for id, n := uint64(1), 0; id <= 100; id++ {
			got := layout3Job(t, e, id)
			if n < len(want) && strings.HasPrefix(want[n], fmt.Sprintf("%d ", id)) {
				if n++; got != want[n-1] {
					t.Errorf("round %d: it is %q, want %q", round, got, want[n-1])
				}
			} else if got != "" {
				t.Errorf("round %d: job %d is back: %s", round, id, got)
			}
		}
		for _, name := range []string{"moved-tables", "moved-log"} {
			if s := statsOf(t, e, name); s.Pause != 1000000000 {
				t.Errorf("round %d: tube %s is paused for %d s", round, name, s.Pause)
			}
		}
		layout, err := get(e.journal.tables.db, []byte{layoutKey}, func(value []byte) ([]byte, error) { return value, nil })
		if err != nil || !bytes.Equal(layout, []byte{layoutVersion}) {
			t.Errorf("round %d: the layout is %x, %v", round, layout, err)
		}
		do(t, e, storage.Op{Kind: storage.SetPolicy, Tube: "t", Rare: &storage.Rare{Policy: &tube.Policy{Rules: tube.Rules{Max: 3}}}})
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// layout3Job describes a job as jobs.txt does: id, tube, state, priority, delay, TTR, length
// of the body, and the five counters; "" if it is gone.
func layout3Job(t *testing.T, e *Engine, id uint64) string {
	t.Helper()
	ops := []storage.Op{{Kind: storage.Peek, ID: id}, {Kind: storage.JobStats, ID: id}}
	storage.DoWait(e, ops)
	s, body := ops[1].Answer.Job, ops[0].Answer.Body
	if s == nil {
		return ""
	}
	if text := fmt.Sprintf("job %d ", id); !strings.HasPrefix(string(body), text) || strings.Trim(string(body[len(text):]), ".") != "" {
		t.Errorf("job %d has the body %.20q of %d bytes (%v)", id, body, len(body), ops[0].Answer.Err)
	}
	c := s.Counters
	return fmt.Sprint(id, " ", s.Tube, " ", s.State, " ", s.Pri, " ", s.Delay, " ", s.TTR, " ", len(body), " ", c[0], " ", c[1], " ", c[2], " ", c[3], " ", c[4])
}
