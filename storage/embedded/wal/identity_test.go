//go:build unix

package wal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// openReal opens a log of two frames in a real directory.
func openReal(t *testing.T) (l *Log, at string) {
	t.Helper()
	at = t.TempDir()
	l, _ = mustOpen(t, options(t, vfs.Default, at), 0)
	for _, p := range []string{"one", "two"} {
		if err := add(l, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	awaitNext(l)
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	return l, at
}

// copyOver replaces a file by a copy of it.
func copyOver(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path+".copy", data, 0o644), os.Rename(path+".copy", path))
}

// TestCheck: the log notices what others do to its current segment.
func TestCheck(t *testing.T) {
	for what, do := range map[string]func(path string) error{
		"removed":   os.Remove,
		"renamed":   func(path string) error { return os.Rename(path, path+".old") },
		"replaced":  copyOver,
		"cut short": func(path string) error { return os.Truncate(path, segmentHeader) },
	} {
		t.Run(what, func(t *testing.T) {
			l, at := openReal(t)
			defer l.Abandon()
			name := filepath.Join(at, "log.1")
			if err := do(name); err != nil {
				t.Fatal(err)
			}
			err := l.Check()
			if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), name) {
				t.Errorf("the current segment is %s: %v", what, err)
			}
		})
	}
}

// TestNextIsGone: a prepared segment that was removed is not begun, and the segment before it
// does not say that the log continues.
func TestNextIsGone(t *testing.T) {
	l, at := openReal(t)
	if err := os.Remove(filepath.Join(at, "log.2")); err != nil {
		t.Fatal(err)
	}
	_, err := l.Rotate()
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "log.2") {
		t.Errorf("rotating into a file that is gone: %v", err)
	}
	if err := add(l, "three"); !errors.Is(err, ErrGone) {
		t.Errorf("appending after that: %v", err)
	}
	l.Abandon()
	l, got := mustOpen(t, options(t, vfs.Default, at), 1)
	same(t, got, []string{"one", "two"})
	l.Abandon()
}

// TestPreparesNothingElsewhere: no file is created in a directory that has replaced that of the
// log.
func TestPreparesNothingElsewhere(t *testing.T) {
	l, at := openReal(t)
	defer l.Abandon()
	if err := os.Rename(at, at+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	l.prepareNext()
	awaitNext(l)
	names, err := os.ReadDir(at)
	if err != nil || len(names) > 0 {
		t.Errorf("in another directory there is %v (%v)", names, err)
	}
	if err := add(l, "three"); !errors.Is(err, ErrGone) {
		t.Errorf("appending after that: %v", err)
	}
}
