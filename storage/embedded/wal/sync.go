package wal

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Mark is a position in the log: the end of all frames that were appended before it was taken.
type Mark struct{ position }

// Mark returns where the next frame goes.
func (l *Log) Mark() Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Mark{position{l.header.number, l.end}}
}

// Sync returns when all frames appended before it was called are on the disk.
func (l *Log) Sync() error { return l.SyncTo(l.Mark()) }

// SyncTo returns when all frames before m are on the disk. If another call has synced them
// meanwhile, it does nothing.
func (l *Log) SyncTo(m Mark) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	return l.sync(m)
}

// onDisk reports whether all frames before m are on the disk. The lock mu is held.
func (l *Log) onDisk(m Mark) bool {
	return m.segment < l.durableFrom || m.segment == l.header.number && m.offset <= l.synced
}

// sync is SyncTo, with the lock syncing held.
func (l *Log) sync(m Mark) error {
	l.mu.Lock()
	number, end := l.header.number, l.end
	done, failed := l.closed || l.onDisk(m), l.failed
	l.mu.Unlock()
	if done || failed != nil {
		return failed
	}
	if err := l.syncEnded(number); err != nil {
		return l.fail(err)
	}
	if err := l.file.SyncData(); err != nil {
		return l.fail(fmt.Errorf("syncing %s: %w", l.path(number), err))
	}
	if err := l.recordGrowth(end); err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = end
	return nil
}

// recordGrowth is called when the first end bytes of the current segment are on the disk. If
// that is more than the recorded size of the file, it writes the new size into the header: no
// later frame proves that the last one was synced, but the length of the file does. The header
// is not synced for that. It survives the process, and gets to the disk with the next frame.
// The lock syncing is held.
func (l *Log) recordGrowth(end int64) error {
	if end <= l.header.size {
		return nil
	}
	h := l.header
	h.size = end
	if _, err := l.file.WriteAt(h.encode(), 0); err != nil {
		return fmt.Errorf("writing the header of %s: %w", l.path(h.number), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.header = h
	return nil
}

// syncEnded syncs the segments before the current one that were not synced when they ended. So
// the field synced of a frame proves that everything before it was on the disk.
func (l *Log) syncEnded(current uint64) error {
	l.mu.Lock()
	from := max(l.durableFrom, l.oldest)
	l.mu.Unlock()
	for number := from; number < current; number++ {
		err := syncFile(l.fs, l.path(number), nil, 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a released segment may be gone
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.durableFrom = max(l.durableFrom, current)
	return nil
}

// syncByTimer syncs what nobody has called Sync for.
func (l *Log) syncByTimer() {
	l.mu.Lock()
	l.timer = nil
	l.mu.Unlock()
	if err := l.Sync(); err != nil {
		l.fatal(err)
	}
}

// syncFile syncs a file by its name. If b is not nil, it first writes b at an offset.
func syncFile(fs vfs.FS, path string, b []byte, offset int64) error {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("opening a segment: %w", err)
	}
	defer f.Close()
	if b != nil {
		if _, err := f.WriteAt(b, offset); err != nil {
			return fmt.Errorf("writing to %s: %w", path, err)
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}
