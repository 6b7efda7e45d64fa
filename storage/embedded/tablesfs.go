package embedded

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tablesFS is the file system that Pebble gets. It differs from the real one in three
// ways:
//
//   - The name of a new manifest is on the disk before Pebble writes the marker that
//     makes it the current one. Pebble syncs the directory only after that. Of two
//     names that were made since the last sync, a file system may keep the later one
//     alone, and then the tables could not be opened.
//   - When the directory cannot be synced it ends the journal. Pebble would panic.
//   - While the directory is not under its name, it answers with ErrGone. Pebble would
//     take a missing table for damage, and might write to another directory.
type tablesFS struct {
	vfs.FS
	fatal func(error)
	dir   *directory // nil: it is not checked
}

// here fails with ErrGone if the directory is not under its name.
func (fs *tablesFS) here() error {
	if fs.dir == nil {
		return nil
	}
	return fs.dir.check()
}

// Open implements vfs.FS.
func (fs *tablesFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	if err := fs.here(); err != nil {
		return nil, err
	}
	return fs.FS.Open(name, o...)
}

// Link implements vfs.FS.
func (fs *tablesFS) Link(from, to string) error {
	if err := fs.here(); err != nil {
		return err
	}
	return fs.FS.Link(from, to)
}

// Rename implements vfs.FS.
func (fs *tablesFS) Rename(from, to string) error {
	if err := fs.here(); err != nil {
		return err
	}
	return fs.FS.Rename(from, to)
}

// Remove implements vfs.FS.
func (fs *tablesFS) Remove(name string) error {
	if err := fs.here(); err != nil {
		return err
	}
	return fs.FS.Remove(name)
}

// Unwrap implements vfs.FS.
func (fs *tablesFS) Unwrap() vfs.FS { return fs.FS }

// gonePause is how long Create waits before it fails because the directory is gone. Pebble
// tries again at once, and without end.
const gonePause = 100 * time.Millisecond

// Create implements vfs.FS.
func (fs *tablesFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.here(); err != nil {
		time.Sleep(gonePause)
		return nil, err
	}
	f, err := fs.FS.Create(name, c)
	if err != nil || !strings.HasPrefix(fs.PathBase(name), "MANIFEST-") {
		return f, err
	}
	if err := syncDir(fs, fs.PathDir(name)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenDir implements vfs.FS.
func (fs *tablesFS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &tablesDirectory{f, name, fs.fatal}, nil
}

// tablesDirectory is the directory of the tables.
type tablesDirectory struct {
	vfs.File
	name  string
	fatal func(error)
}

// Sync implements vfs.File.
func (d *tablesDirectory) Sync() error {
	err := d.File.Sync()
	if err != nil {
		d.fatal(fmt.Errorf("syncing the directory %s: %w", d.name, err))
	}
	return err
}

// syncDir syncs the names in a directory.
func syncDir(fs vfs.FS, path string) error {
	dir, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
