package embedded

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tablesFS has the name of a new manifest on the disk before Pebble writes the
// marker that says that it is the current one. Pebble syncs the directory only
// behind the marker, and a file system may keep, of two names that were made
// since, the later one alone: the tables could not be opened then.
type tablesFS struct {
	vfs.FS
}

// Unwrap implements vfs.FS.
func (fs tablesFS) Unwrap() vfs.FS { return fs.FS }

// Create implements vfs.FS.
func (fs tablesFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	if err != nil || !strings.HasPrefix(fs.PathBase(name), "MANIFEST-") {
		return f, err
	}
	if err := syncDir(fs, fs.PathDir(name)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncDir has the names in a directory on the disk.
func syncDir(fs vfs.FS, path string) error {
	dir, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
