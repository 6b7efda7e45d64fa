package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/wal"
)

// ErrLocked is in the chain of Open's error when another process has the directory.
var ErrLocked = errors.New("another process uses the directory")

// ErrEnding is in the chain beside ErrLocked when that process has called Ending.
var ErrEnding = errors.New("it is ending")

// ErrGone is in the chain of an error when somebody has removed, renamed or
// replaced the directory or files in it that are in use.
var ErrGone = wal.ErrGone

// directory is a directory that is kept open, so that it can be told from another one
// that gets its name.
type directory struct {
	fs   vfs.FS
	path string
	file vfs.File
	info vfs.FileInfo
}

func openDirectory(fs vfs.FS, path string) (*directory, error) {
	file, err := fs.OpenDir(path)
	if err != nil {
		return nil, fmt.Errorf("opening the directory %s: %w", path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the directory %s: %w", path, err), file.Close())
	}
	return &directory{fs, path, file, info}, nil
}

// check fails with ErrGone if the path does not lead to the directory any more.
func (d *directory) check() error { return wal.LeadsTo(d.fs, d.path, d.info) }

// removed reports whether the directory does not exist any more, under no name.
func (d *directory) removed() bool {
	info, err := d.file.Stat()
	return err == nil && wal.Unlinked(info)
}

// directoryLock is the two locks on the engine's directory. One is on the directory
// itself. The other one is on a file in it, as some systems know no locks on
// directories.
type directoryLock struct {
	dir  *directory
	file *pebble.Lock
}

func lockDirectory(o *Options) (*directoryLock, error) {
	dir, err := openDirectory(o.fs, o.Dir)
	if err != nil {
		return nil, err
	}
	if err := dir.lock(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrLocked, err), dir.file.Close())
	}
	file, err := pebble.LockDirectory(o.Dir, o.fs)
	if err == nil {
		return &directoryLock{dir, file}, nil
	}
	if !errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return nil, errors.Join(err, dir.file.Close())
}

// Close releases the locks.
func (l *directoryLock) Close() error { return errors.Join(l.file.Close(), l.dir.file.Close()) }

// makeDir makes a directory and those above it. It syncs what it has made: else a power
// cut could take away the directory with all jobs in it.
func makeDir(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); err == nil {
		return nil
	}
	parent := fs.PathDir(dir)
	if parent != dir {
		if err := makeDir(fs, parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return syncDir(fs, parent)
}

// Exists tells whether an engine has been opened on a directory.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, tablesDir))
	return err == nil
}

// refuseForeign fails if the directory holds a binlog of beanstalkd: the engine does not
// read it, and its jobs would seem to be lost.
func refuseForeign(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if number, ok := strings.CutPrefix(name, "binlog."); ok && strings.Trim(number, "0123456789") == "" {
			return fmt.Errorf("there is a binlog of beanstalkd (%s), and this is no place for others: import its jobs, or choose another directory", name)
		}
	}
	return nil
}
