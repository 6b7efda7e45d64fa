package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/storage/embedded/wal"
)

// target is a directory that gets its name when everything is in it: until then it is called
// PATH.partial. A process that dies leaves that, and the next one with the same path removes it.
type target struct {
	fs            vfs.FS
	path, partial string
	lock          io.Closer // nil: it has its name
}

const (
	partialSuffix = ".partial"

	// lockName is a file in a directory that is not complete. A process that writes to the
	// directory has locked it.
	lockName = "backup.lock"
)

// checkTarget fails with storage.ErrBackupPath unless a path is absolute, is that of an empty
// directory or of nothing, in a directory that exists, and is not inside another directory.
func checkTarget(path, other string) error {
	path = filepath.Clean(path)
	if !filepath.IsAbs(path) || filepath.Dir(path) == path {
		return fmt.Errorf("%w: the path must be absolute, and not that of a whole file system", storage.ErrBackupPath)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("%w: %w", storage.ErrBackupPath, err)
	}
	if other, err = filepath.Abs(other); err == nil {
		other, err = filepath.EvalSymlinks(other)
	}
	if err != nil {
		return err
	}
	if below, err := filepath.Rel(other, filepath.Join(parent, filepath.Base(path))); err == nil && filepath.IsLocal(below) {
		return fmt.Errorf("%w: it is inside %s", storage.ErrBackupPath, other)
	}
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%w: there is something else with that name", storage.ErrBackupPath)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("%w: %w", storage.ErrBackupPath, err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: the directory is not empty", storage.ErrBackupPath)
	}
	return nil
}

// beginTarget makes the directory under its temporary name. It removes what a process that died has
// left there.
func beginTarget(fs vfs.FS, path string) (*target, error) {
	path = strings.TrimRight(path, string(filepath.Separator))
	t := &target{fs: fs, path: path, partial: path + partialSuffix}
	if _, err := fs.Stat(t.partial); err == nil {
		if err := t.removeLeft(); err != nil {
			return nil, err
		}
	}
	if err := wal.MakeDir(fs, t.partial); err != nil {
		return nil, fmt.Errorf("making %s: %w", t.partial, err)
	}
	lock, err := fs.Lock(fs.PathJoin(t.partial, lockName))
	if err != nil {
		t.fs.Remove(t.partial)
		return nil, fmt.Errorf("locking %s: %w", t.partial, err)
	}
	t.lock = lock
	return t, nil
}

// removeLeft removes a directory that a process has left. It fails if a process is writing to it, or
// if it is something else.
func (t *target) removeLeft() error {
	name := t.fs.PathJoin(t.partial, lockName)
	if _, err := t.fs.Stat(name); err != nil {
		if names, err := t.fs.List(t.partial); err == nil && len(names) == 0 {
			return nil // it died before it could lock the directory
		}
		return fmt.Errorf("%w: %s exists, and is nothing that an interrupted backup or restore has left", storage.ErrBackupPath, t.partial)
	}
	lock, err := t.fs.Lock(name)
	if err != nil {
		return fmt.Errorf("%w: another process is writing to %s: %w", storage.ErrBackupPath, t.partial, err)
	}
	if err := errors.Join(t.fs.RemoveAll(t.partial), lock.Close()); err != nil {
		return fmt.Errorf("removing what an interrupted backup or restore has left: %w", err)
	}
	return nil
}

// complete gives the directory its name. Everything in it is on the disk. The file of the lock goes last: a directory with
// the temporary name must have it.
func (t *target) complete() error {
	err := wal.SyncDir(t.fs, t.partial)
	if info, missing := t.fs.Stat(t.path); err == nil && missing == nil && info.IsDir() {
		err = t.fs.Remove(t.path) // which fails unless it is empty
	}
	if err == nil {
		err = t.fs.Rename(t.partial, t.path)
	}
	if err == nil {
		err = wal.SyncDir(t.fs, t.fs.PathDir(t.path))
	}
	if err != nil {
		return fmt.Errorf("completing %s: %w", t.path, err)
	}
	err = errors.Join(t.fs.Remove(t.fs.PathJoin(t.path, lockName)), t.lock.Close())
	t.lock = nil
	return err
}

// abandon removes the directory, unless it is complete.
func (t *target) abandon() {
	if t.lock != nil {
		t.fs.RemoveAll(t.partial)
		t.lock.Close()
	}
}
