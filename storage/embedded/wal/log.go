package wal

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/telemetry"
)

// Options say where the log is and how it is written.
type Options struct {
	FS   vfs.FS
	Dir  string // must exist
	Size int64  // size in bytes from which on a segment is full

	// SyncEvery is the longest time that a frame waits to be synced if nobody calls Sync; 0 or
	// less means for ever.
	SyncEvery time.Duration

	// Never says that nothing is synced without a call of Sync, not even a full segment.
	Never bool

	Log   *slog.Logger
	Fatal func(error) // is called with the error of a sync that the log made by itself
}

// Log is an open log. The fields from mu on are guarded by mu.
type Log struct {
	fs      vfs.FS
	dir     string
	size    int64
	every   time.Duration
	never   bool
	log     *slog.Logger
	fatal   func(error)
	limited telemetry.Throttle // limits messages that a segment cannot be prepared

	syncing sync.Mutex // held while a file is synced; taken before mu
	file    vfs.File   // of the current segment; changed by Rotate, under syncing

	mu          sync.Mutex
	header      header       // of the current segment; changed under syncing as well
	info        vfs.FileInfo // of file, when it got its name
	end         int64        // of the frames in the current segment
	synced      int64        // how much of the current segment is on the disk
	durableFrom uint64       // all segments before this one are completely on the disk
	oldest      uint64       // segment that is not released
	next        *segment     // is prepared; nil: none is
	reusable    []string     // paths of released segments to use again, in the order of their numbers
	holds       int          // see Hold
	heldBack    uint64       // segments up to this one are to be released when no Hold is left
	linked      uint64       // segments up to this one have other links, see CopyTo: they are not used again
	preparing   bool         // the next segment is being prepared
	retry       int64        // preparing has failed: try again when end is here
	idle        sync.Cond    // signals that preparing is false
	timer       *time.Timer  // nil: nothing waits to be synced
	failed      error        // since then it is not known what is on the disk
	closed      bool
}

// segment is a prepared segment.
type segment struct {
	number uint64
	file   vfs.File
	info   vfs.FileInfo
}

// fail marks the log as failed, and returns err. An operating system reports a failed sync only
// once: the next one may well succeed, without the data that was lost.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
	return err
}

// Segments returns the numbers of the oldest and the current segment.
func (l *Log) Segments() (oldest, current uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.oldest, l.header.number
}

// Close syncs everything, and records in the header of the current segment where its frames
// end.
func (l *Log) Close() error {
	err := l.syncAndClose()
	if next := l.stop(); next != nil {
		next.file.Close()
		l.fs.Remove(l.path(next.number))
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if e := l.file.Close(); err == nil && e != nil {
		err = fmt.Errorf("closing %s: %w", l.path(l.header.number), e)
	}
	return err
}

// Abandon closes the files and leaves them as they are.
func (l *Log) Abandon() {
	if next := l.stop(); next != nil {
		next.file.Close()
	}
	l.file.Close()
}

// stop ends the work in the background. It returns the prepared segment, if there is one.
func (l *Log) stop() (next *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	for l.preparing {
		l.idle.Wait()
	}
	return l.next
}

// syncAndClose syncs the current segment and records in its header that the log was closed.
func (l *Log) syncAndClose() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.sync(l.Mark()); err != nil {
		return err
	}
	h := l.header
	h.closed = l.end
	path := l.path(h.number)
	if _, err := l.file.WriteAt(h.encode(), 0); err != nil {
		return fmt.Errorf("writing the header of %s: %w", path, err)
	}
	if err := l.file.SyncData(); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}

// Bytes returns the total size of the files of the log, including those that are prepared or
// kept to be used again. Files that cannot be read count as nothing.
func (l *Log) Bytes() (all int64) {
	numbers, _ := Numbers(l.fs, l.dir)
	for _, n := range numbers {
		if info, err := l.fs.Stat(l.path(n)); err == nil {
			all += info.Size()
		}
	}
	return all
}
