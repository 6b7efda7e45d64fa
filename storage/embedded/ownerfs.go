package embedded

import (
	"errors"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Files and directories of the engine are accessible to their owner only.
const (
	ownerFile      os.FileMode = 0o600
	ownerDirectory os.FileMode = 0o700
)

// ownerFS is the real file system, except that files and directories that it creates are
// accessible to their owner only.
type ownerFS struct{ vfs.FS }

// Create implements vfs.FS. Others cannot open the file even while it is empty.
func (fs ownerFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, ownerFile)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return fs.OpenReadWrite(name, c)
}

// MkdirAll implements vfs.FS.
func (fs ownerFS) MkdirAll(dir string, _ os.FileMode) error {
	return fs.FS.MkdirAll(dir, ownerDirectory)
}

// Lock implements vfs.FS.
func (fs ownerFS) Lock(name string) (io.Closer, error) {
	c, err := fs.FS.Lock(name)
	if err == nil {
		os.Chmod(name, ownerFile) // it is empty
	}
	return c, err
}

// Unwrap implements vfs.FS.
func (fs ownerFS) Unwrap() vfs.FS { return fs.FS }
