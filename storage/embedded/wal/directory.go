package wal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Directory is a directory that is kept open, so that it can be told from another one
// that gets its name.
type Directory struct {
	fs   vfs.FS
	path string
	file vfs.File
	info vfs.FileInfo
}

// OpenDirectory opens a directory.
func OpenDirectory(fs vfs.FS, path string) (*Directory, error) {
	file, err := fs.OpenDir(path)
	if err != nil {
		return nil, fmt.Errorf("opening the directory %s: %w", path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the directory %s: %w", path, err), file.Close())
	}
	return &Directory{fs, path, file, info}, nil
}

// Check fails with ErrGone if the path no longer leads to the directory.
func (d *Directory) Check() error { return leadsTo(d.fs, d.path, d.info) }

// Removed reports whether the directory no longer exists, under any name.
func (d *Directory) Removed() bool {
	info, err := d.file.Stat()
	return err == nil && unlinked(info)
}

// Fd returns the file descriptor of the directory; vfs.InvalidFd if it has none.
func (d *Directory) Fd() uintptr { return d.file.Fd() }

// Close closes the directory.
func (d *Directory) Close() error { return d.file.Close() }

// MakeDir makes a directory and those above it. It syncs what it has made: otherwise a
// power cut could take away the directory with all files in it.
func MakeDir(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); err == nil {
		return nil
	}
	parent := fs.PathDir(dir)
	if parent != dir {
		if err := MakeDir(fs, parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return SyncDir(fs, parent)
}

// SyncDir syncs the names in a directory.
func SyncDir(fs vfs.FS, path string) error {
	dir, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
