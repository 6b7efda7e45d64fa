package embedded

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redstalk/storage"
)

// TestOpenFiles: however many files the tables have, few of them are open at the same time, apart from those that are being
// merged, and all jobs come out.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	const limit, jobs = 4, 500
	dir := t.TempDir()
	e := mustOpen(t, Options{Dir: dir, segment: minFileSize, windowBytes: -1, KeepBodies: 1, OpenFiles: limit})
	defer e.Close()
	body := bytes.Repeat([]byte("x"), 64<<10)
	for range jobs {
		do(t, e, storage.Op{Kind: storage.Put, Tube: "a", TTR: 9, Body: body})
	}
	eventually(t, "the tables to catch up", func() bool { oldest, current := segments(e); return oldest == current })
	most := 0
	for range jobs {
		if a := do(t, e, storage.Op{Kind: storage.Take, Tubes: []string{"a"}, Holder: 1})[0].Answer; len(a.Body) != len(body) {
			t.Fatalf("a body of %d bytes", len(a.Body))
		}
		most = max(most, countOpen(t, dir))
	}
	files, err := filepath.Glob(filepath.Join(dir, "tables", "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d files were open", most, len(files))
	if len(files) < 5*limit || most > len(files)/2 {
		t.Errorf("%d of %d files were open", most, len(files))
	}
}

// countOpen returns how many files of tables below a directory this process has open.
func countOpen(t *testing.T, dir string) (n int) {
	t.Helper()
	links, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if path, err := os.Readlink("/proc/self/fd/" + l.Name()); err == nil && strings.HasPrefix(path, dir) && strings.HasSuffix(path, ".sst") {
			n++
		}
	}
	return n
}
