package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

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
	l, err := lockWithoutFile(o)
	if err != nil {
		return nil, err
	}
	l.file, err = tables.LockDirectory(o.fs, o.Dir)
	if err == nil {
		return l, nil
	}
	if failed := (*os.PathError)(nil); !errors.As(err, &failed) { // otherwise the file cannot be opened
		err = fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return nil, errors.Join(err, l.dir.Close())
}

// lockWithoutFile is lockDirectory without the lock on a file, for a directory in which that file is missing and nothing may be written.
func lockWithoutFile(o *Options) (*directoryLock, error) {
	dir, err := wal.OpenDirectory(o.fs, o.Dir)
	if err != nil {
		return nil, err
	}
	if err := flock(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrLocked, err), dir.Close())
	}
	return &directoryLock{dir, nil}, nil
}

// Close releases the locks.
func (l *directoryLock) Close() error {
	if l.file == nil {
		return l.dir.Close()
	}
	return errors.Join(l.file.Close(), l.dir.Close())
}

// Exists reports whether an engine has been opened on a directory.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, tables.DirName))
	return err == nil
}

const (
	// checkEvery is the minimum time between two checks that the directory is still the
	// engine's, while there are changes. A check takes a few microseconds.
	checkEvery = 10 * time.Millisecond

	// checkWhenIdle is how often that is checked even if nothing changes.
	checkWhenIdle = 500 * time.Millisecond
)

// ownership checks that the next Open would find what is written: that the directory, the
// current segment of the log and the tables are those that were opened.
type ownership struct {
	dir    *wal.Directory
	tables *wal.Directory
	log    *wal.Log
	clock  func() time.Time

	mu        sync.Mutex
	checkedAt time.Time
	lost      error // ErrGone; it stays set
}

// check fails with ErrGone if the directory is no longer the engine's.
func (o *ownership) check() error { return o.checkWithin(0) }

// checkRecently is check, unless the last check was less than checkEvery ago.
func (o *ownership) checkRecently() error { return o.checkWithin(checkEvery) }

// checkWithin is check, unless the last check was less than d ago.
func (o *ownership) checkWithin(d time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock()
	if o.lost != nil || d > 0 && now.Sub(o.checkedAt) < d {
		return o.lost
	}
	o.checkedAt = now
	if o.lost = o.dir.Check(); o.lost == nil {
		o.lost = o.log.Check()
	}
	if o.lost == nil {
		o.lost = o.tablesLost()
	}
	return o.lost
}

// tablesLost fails if the tables will not come back. If they are only renamed they can come
// back, and the log keeps what they lack until then.
func (o *ownership) tablesLost() error {
	err := o.tables.Check()
	if errors.Is(err, wal.ErrReplaced) || err != nil && o.tables.Removed() {
		return err
	}
	return nil
}

// watchDirectory regularly checks that the directory is still the engine's, until the journal
// ends. It makes the spare file when the disk has room; spare is its size, 0 for none.
func (j *journal) watchDirectory(spare int64) {
	ticker := time.NewTicker(checkWhenIdle)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			j.requireOwnership()
			if spare > 0 && makeSpare(j.guard.fs, j.dir, spare) {
				spare = 0
			}
		case <-j.ended:
			return
		}
	}
}

// requireOwnership ends the process if the directory is no longer the engine's.
func (j *journal) requireOwnership() {
	if err := j.ownership.check(); err != nil {
		j.fatal(err)
	}
}
