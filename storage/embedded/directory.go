package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/tables"
	"redstalk/storage/embedded/wal"
)

// ErrLocked is in the chain of Open's error if another process uses the directory.
var ErrLocked = errors.New("another process uses the directory")

// ErrEnding is in the chain beside ErrLocked if that process has called Ending.
var ErrEnding = errors.New("that process is shutting down")

// ErrGone is in the chain of an error if somebody has removed, renamed or replaced the
// directory or files in it that are in use.
var ErrGone = wal.ErrGone

// directoryLock is two locks on the engine's directory: one on the directory itself, and one on
// a file in it, because some systems do not support locks on directories.
type directoryLock struct {
	dir  *wal.Directory
	file io.Closer
}

func lockDirectory(o *Options) (*directoryLock, error) {
	dir, err := wal.OpenDirectory(o.fs, o.Dir)
	if err != nil {
		return nil, err
	}
	if err := flock(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrLocked, err), dir.Close())
	}
	file, err := tables.LockDirectory(o.fs, o.Dir)
	if err == nil {
		return &directoryLock{dir, file}, nil
	}
	if !errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return nil, errors.Join(err, dir.Close())
}

// Close releases the locks.
func (l *directoryLock) Close() error { return errors.Join(l.file.Close(), l.dir.Close()) }

// Exists reports whether an engine has been opened on a directory.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, tables.DirName))
	return err == nil
}

// refuseForeign fails if the directory contains a binlog of beanstalkd: the engine does not
// read it, and its jobs would seem to be lost.
func refuseForeign(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if number, ok := strings.CutPrefix(name, "binlog."); ok && strings.Trim(number, "0123456789") == "" {
			return fmt.Errorf("there is a binlog of beanstalkd (%s): import its jobs, or choose another directory", name)
		}
	}
	return nil
}
