package tables

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/wal"
)

// checkedFS is the file system that Pebble gets. It differs from the real one in three
// ways:
//
//   - The name of a new manifest is on the disk before Pebble writes the marker that
//     makes it the current one. Pebble syncs the directory only after that. Of two
//     names that were made since the last sync, a file system may keep only the later
//     one, and then the tables could not be opened.
//   - If the directory cannot be synced, it calls fatal. Pebble would panic.
//   - While the directory is not under its name, it fails with wal.ErrGone. Pebble would
//     take a missing file for damage, and might write to another directory.
type checkedFS struct {
	vfs.FS
	fatal func(error)
	dir   *wal.Directory // nil: it is not checked
}

// check fails with wal.ErrGone if the directory is not under its name.
func (fs *checkedFS) check() error {
	if fs.dir == nil {
		return nil
	}
	return fs.dir.Check()
}

// Open implements vfs.FS.
func (fs *checkedFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	if err := fs.check(); err != nil {
		return nil, err
	}
	f, err := fs.FS.Open(name, o...)
	if errors.Is(err, os.ErrNotExist) {
		if gone := fs.check(); gone != nil {
			return nil, gone // it was renamed after the first check
		}
	}
	return f, err
}

// Link implements vfs.FS.
func (fs *checkedFS) Link(from, to string) error {
	if err := fs.check(); err != nil {
		return err
	}
	return fs.FS.Link(from, to)
}

// Rename implements vfs.FS.
func (fs *checkedFS) Rename(from, to string) error {
	if err := fs.check(); err != nil {
		return err
	}
	return fs.FS.Rename(from, to)
}

// Remove implements vfs.FS.
func (fs *checkedFS) Remove(name string) error {
	if err := fs.check(); err != nil {
		return err
	}
	return fs.FS.Remove(name)
}

// Unwrap implements vfs.FS.
func (fs *checkedFS) Unwrap() vfs.FS { return fs.FS }

// gonePause is how long Create waits before it fails because the directory is gone. Pebble
// tries again at once, without limit.
const gonePause = 100 * time.Millisecond

// Create implements vfs.FS.
func (fs *checkedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.check(); err != nil {
		time.Sleep(gonePause)
		return nil, err
	}
	f, err := fs.FS.Create(name, c)
	if err != nil || !strings.HasPrefix(fs.PathBase(name), "MANIFEST-") {
		return f, err
	}
	if err := wal.SyncDir(fs, fs.PathDir(name)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenDir implements vfs.FS.
func (fs *checkedFS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &checkedDirectory{f, name, fs.fatal}, nil
}

// checkedDirectory is the directory of the tables.
type checkedDirectory struct {
	vfs.File
	name  string
	fatal func(error)
}

// Sync implements vfs.File.
func (d *checkedDirectory) Sync() error {
	err := d.File.Sync()
	if err != nil {
		d.fatal(fmt.Errorf("syncing the directory %s: %w", d.name, err))
	}
	return err
}
