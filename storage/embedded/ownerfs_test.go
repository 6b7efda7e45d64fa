package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// modes calls walk with everything in a directory.
func modes(t *testing.T, dir string, walk func(path string, mode os.FileMode)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				walk(path, info.Mode())
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a table that was merged with others
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestForOwnerOnly: others cannot read any file of the engine. Directories that already exist
// keep their mode.
func TestForOwnerOnly(t *testing.T) {
	parent := t.TempDir()
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	d := &onDisk{dir: filepath.Join(parent, "made", "jobs"), clock: newFakeClock(), fatal: make(chan error, 100)}
	o := d.options()
	o.fs = nil
	e, files := mustOpen(t, o), 0
	fillTables(t, e)
	modes(t, parent, func(path string, mode os.FileMode) {
		want := ownerFile
		switch {
		case path == parent:
			want = 0o755
		case mode.IsDir():
			want = ownerDirectory
		default:
			files++
		}
		if mode.Perm() != want {
			t.Errorf("%s has the mode %v, want %v", path, mode.Perm(), want)
		}
	})
	if err := e.Close(); err != nil || files < 8 {
		t.Errorf("%d files: %v", files, err)
	}
}
