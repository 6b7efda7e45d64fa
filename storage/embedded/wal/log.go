package wal

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/telemetry"
)

// Options say where the log is and how it is kept.
type Options struct {
	FS   vfs.FS
	Dir  string // must exist
	Size int64  // the size in bytes from which on a segment is full

	// SyncEvery is the longest time that a frame waits to be synced if nobody calls
	// Sync; 0 or less means for ever.
	SyncEvery time.Duration

	// Never says that nothing is synced without a call of Sync, not even a full
	// segment.
	Never bool

	Log   *slog.Logger
	Fatal func(error) // gets the error of a sync that nobody has called for
}

// Log is an open log. The fields from mu on are guarded by mu.
type Log struct {
	fs    vfs.FS
	dir   string
	size  int64
	every time.Duration
	never bool
	log   *slog.Logger
	fatal func(error)
	said  telemetry.Log // messages that a segment cannot be prepared

	syncing sync.Mutex // held while a file is synced; taken before mu
	file    vfs.File   // of the current segment; changed by Rotate, under syncing

	mu          sync.Mutex
	header      header       // of the current segment; changed under syncing as well
	info        vfs.FileInfo // of file, when it got its name
	end         int64        // of the frames in the current segment
	synced      int64        // how much of the current segment is on the disk
	durableFrom uint64       // all segments before this one are on the disk, all of them
	oldest      uint64       // segment that is not released
	next        *segment     // is prepared; nil: none is
	spares      []string     // paths of released segments to use again, in the order of their numbers
	making      bool         // the next segment is being prepared
	retry       int64        // preparing it has failed: try again when end is here
	idle        sync.Cond    // signals that making is false
	timer       *time.Timer  // nil: nothing waits to be synced
	failed      error        // since then it is not known what is on the disk
	closed      bool
}

// segment is a segment that is prepared.
type segment struct {
	number uint64
	file   vfs.File
	info   vfs.FileInfo
}

// fail makes the log of no use any more, and returns err. An operating system tells about
// a failed sync once: the next one may well succeed, without the data that was lost.
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

// Close syncs all there is, and says in the header of the current segment where its
// frames end.
func (l *Log) Close() error {
	err := l.finish()
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

// stop ends what goes on in the background. It returns the segment that was prepared, if
// there is one.
func (l *Log) stop() (next *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	for l.making {
		l.idle.Wait()
	}
	return l.next
}

// finish syncs the current segment and says in its header that the log was closed.
func (l *Log) finish() error {
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

// Bytes returns how many bytes the files of the log have, those included that are prepared
// or kept to be used again. What cannot be read counts as nothing.
func (l *Log) Bytes() (all int64) {
	numbers, _ := Numbers(l.fs, l.dir)
	for _, n := range numbers {
		if info, err := l.fs.Stat(l.path(n)); err == nil {
			all += info.Size()
		}
	}
	return all
}
