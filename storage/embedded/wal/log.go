package wal

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options say where the log is and how it is kept.
type Options struct {
	FS   vfs.FS
	Dir  string // must exist
	Size int64  // bytes from which on a segment is full

	// SyncEvery is the longest that a frame waits to be synced without a call
	// of Sync; 0 or less means for ever.
	SyncEvery time.Duration

	// Never says that not even a full segment is synced.
	Never bool

	Log   *slog.Logger
	Fatal func(error) // gets an error of a sync that nobody has called for
}

// Log is an open log.
type Log struct {
	fs    vfs.FS
	dir   string
	size  int64
	every time.Duration
	never bool
	log   *slog.Logger
	fatal func(error)

	file   vfs.File // of the current segment; guarded by syncing for closing it
	number uint64   // of the current segment; changed by Rotate under mu

	syncing sync.RWMutex // held for reading while the current file is synced
	mu      sync.Mutex
	end     int64  // of the current segment
	synced  int64  // of the current segment
	oldest  uint64 // segment
	next    *segment
	spare   string // path of a segment to use again, "" if none
	making  bool   // the next segment is being prepared
	idle    sync.Cond
	timer   *time.Timer // nil unless something waits to be synced
	closed  bool
}

// segment is one that is prepared.
type segment struct {
	number uint64
	file   vfs.File
}

// Open opens the log in a directory, replays its frames from segment first on
// (1 for a new log), and begins a new segment. The payload that replay gets is
// its own to keep.
func Open(o Options, first uint64, replay func(payload []byte) error) (*Log, error) {
	l := &Log{
		fs: o.FS, dir: o.Dir, size: max(o.Size, segmentHeader), every: o.SyncEvery, never: o.Never,
		log: o.Log, fatal: o.Fatal, oldest: first,
	}
	l.idle.L = &l.mu
	numbers, err := l.list()
	if err != nil {
		return nil, err
	}
	for len(numbers) > 0 && numbers[0] < first {
		if err := l.fs.Remove(l.path(numbers[0])); err != nil {
			return nil, fmt.Errorf("removing an old segment: %w", err)
		}
		numbers = numbers[1:]
	}
	r := &reader{Log: l, replay: replay}
	unused, err := r.read(first, numbers)
	if err != nil {
		return nil, err
	}
	if err := l.begin(r, unused, numbers); err != nil {
		return nil, err
	}
	l.prepareNext()
	return l, nil
}

// begin removes the segments from unused on and begins that one anew, behind
// what r has read.
func (l *Log) begin(r *reader, unused uint64, numbers []uint64) error {
	if r.number != 0 {
		// What was replayed will be vouched for.
		if err := syncFile(l.fs, l.path(r.number)); err != nil {
			return err
		}
	}
	for _, number := range numbers {
		if number < unused {
			continue
		}
		if number > unused {
			l.log.Warn("a segment behind the torn end of the log is dropped", "file", l.path(number))
		}
		if err := l.fs.Remove(l.path(number)); err != nil {
			return fmt.Errorf("removing an unused segment: %w", err)
		}
	}
	s, err := l.prepare(unused, "", min(l.size, maxZeros))
	if err != nil {
		s, err = l.prepare(unused, "", 0) // on a full disk there is room for less
	}
	if err != nil {
		return err
	}
	return l.use(s, header{number: unused, prevEnd: r.end, durable: true})
}

// use makes s the current segment.
func (l *Log) use(s *segment, h header) error {
	if _, err := s.file.WriteAt(h.encode(), 0); err != nil {
		return fmt.Errorf("writing the header of %s: %w", l.path(s.number), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file, l.number, l.end, l.synced = s.file, s.number, segmentHeader, 0
	return nil
}

// Append writes a frame, which begins with HeaderSize bytes for the log to
// fill, and returns it with what was appended, to be used again. It is with the
// operating system then.
func (l *Log) Append(frame []byte) ([]byte, error) {
	l.mu.Lock()
	at, synced := place{l.number, l.end}, l.synced
	l.mu.Unlock()
	frame = seal(frame, at, synced)
	if _, err := l.file.WriteAt(frame, at.offset); err != nil {
		return frame, fmt.Errorf("writing to %s: %w", l.path(l.number), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end += int64(len(frame))
	if l.every > 0 && l.timer == nil && !l.closed {
		l.timer = time.AfterFunc(l.every, l.syncByTimer)
	}
	return frame, nil
}

// Sync returns when all frames appended before it was called are on the disk.
func (l *Log) Sync() error {
	l.syncing.RLock()
	defer l.syncing.RUnlock()
	l.mu.Lock()
	number, end, done := l.number, l.end, l.synced == l.end || l.closed
	l.mu.Unlock()
	if done {
		return nil // a rotation has synced what was before it
	}
	if err := l.file.SyncData(); err != nil {
		return fmt.Errorf("syncing %s: %w", l.path(number), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = max(l.synced, end)
	return nil
}

func (l *Log) syncByTimer() {
	l.mu.Lock()
	l.timer = nil
	l.mu.Unlock()
	if err := l.Sync(); err != nil {
		l.fatal(err)
	}
}

// Full tells whether Rotate would begin a new segment.
func (l *Log) Full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end >= l.size && l.next == nil && !l.making {
		l.making = true // it has failed before
		go l.makeNext(l.number + 1)
	}
	return l.end >= l.size && l.next != nil
}

// Rotate ends the current segment, whose number it returns, and begins the
// next. It must be Full.
func (l *Log) Rotate() (ended uint64, err error) {
	if !l.never {
		if err := l.Sync(); err != nil {
			return 0, err
		}
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	next, file := l.next, l.file
	h := header{number: next.number, prevEnd: l.end, durable: !l.never}
	ended, l.next = l.number, nil
	l.mu.Unlock()
	if err := l.use(next, h); err != nil {
		return 0, err
	}
	if err := file.Close(); err != nil {
		return 0, fmt.Errorf("closing %s: %w", l.path(ended), err)
	}
	l.prepareNext()
	return ended, nil
}

// Release says that the segments up to number are needed no more.
func (l *Log) Release(number uint64) {
	l.mu.Lock()
	from := l.oldest
	l.oldest = max(from, number+1)
	l.mu.Unlock()
	for n := from; n <= number; n++ {
		if l.keepSpare(l.path(n)) {
			continue
		}
		if err := l.fs.Remove(l.path(n)); err != nil {
			l.log.Warn("an old segment of the log cannot be removed", "err", err)
		}
	}
}

func (l *Log) keepSpare(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spare != "" || l.closed {
		return false
	}
	l.spare = path
	return true
}

// Segments returns the numbers of the oldest and the current segment.
func (l *Log) Segments() (oldest, current uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.oldest, l.number
}

// Close ends the log with a frame that vouches for all others.
func (l *Log) Close() error {
	err := l.finish()
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	for l.making {
		l.idle.Wait()
	}
	next := l.next
	l.mu.Unlock()
	if next != nil {
		next.file.Close()
		l.fs.Remove(l.path(next.number))
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if e := l.file.Close(); err == nil && e != nil {
		err = fmt.Errorf("closing %s: %w", l.path(l.number), e)
	}
	return err
}

func (l *Log) finish() error {
	if err := l.Sync(); err != nil {
		return err
	}
	if _, err := l.Append(make([]byte, HeaderSize)); err != nil {
		return err
	}
	return l.Sync()
}

// Abandon closes the files and leaves everything as it is.
func (l *Log) Abandon() {
	l.mu.Lock()
	l.closed = true
	for l.making {
		l.idle.Wait()
	}
	next := l.next
	l.mu.Unlock()
	if next != nil {
		next.file.Close()
	}
	l.file.Close()
}
