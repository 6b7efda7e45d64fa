package wal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
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

	// Never says that not even a full segment is synced, but by a call of Sync.
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

	file   vfs.File     // of the current segment; changed by Rotate under syncing
	header header       // of the current segment; changed under syncing and mu
	info   vfs.FileInfo // of file when it got its name; changed by Rotate under mu

	syncing sync.Mutex // held while a file is synced
	mu      sync.Mutex
	end     int64  // of the current segment
	synced  int64  // of the current segment
	kept    uint64 // the first segment that is not on the disk for certain
	oldest  uint64 // segment
	next    *segment
	spare   string    // path of a segment to use again, "" if none
	making  bool      // the next segment is being prepared
	retry   int64     // preparing it has failed: where the current one has grown enough to try again
	told    time.Time // when it was last said that it has failed
	idle    sync.Cond
	timer   *time.Timer // nil unless something waits to be synced
	failed  error       // what is on the disk is not known since
	closed  bool
}

// segment is one that is prepared.
type segment struct {
	number uint64
	file   vfs.File
	info   vfs.FileInfo
}

// Open opens the log in a directory, replays its frames from segment first on,
// and begins a new segment. If first is 0 there may be no log yet: all there is
// of one is replayed. The payload that replay gets is its own to keep.
func Open(o Options, first uint64, replay func(payload []byte) error) (*Log, error) {
	must := first > 0
	first = max(first, 1)
	l := &Log{
		fs: o.FS, dir: o.Dir, size: max(o.Size, segmentHeader), every: o.SyncEvery, never: o.Never,
		log: o.Log, fatal: o.Fatal, oldest: first,
	}
	l.idle.L = &l.mu
	numbers, err := Numbers(o.FS, o.Dir)
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
	unused, err := r.read(first, must, numbers)
	if err != nil {
		return nil, err
	}
	if err := l.begin(r, unused, numbers); err != nil {
		return nil, err
	}
	l.prepareNext()
	return l, nil
}

// begin begins segment unused anew, behind what r has read, and removes those
// behind it.
func (l *Log) begin(r *reader, unused uint64, numbers []uint64) error {
	for _, number := range numbers {
		if number <= unused {
			continue
		}
		l.log.Warn("a segment behind the torn end of the log is dropped", "file", l.path(number))
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
	if err := l.vouch(r); err != nil {
		s.file.Close()
		return err
	}
	return l.use(s, header{number: unused, used: true, prevEnd: r.end, durable: true})
}

// vouch has all that was replayed on the disk, and says at its end that there
// is a segment behind it.
func (l *Log) vouch(r *reader) error {
	if r.number == 0 {
		return nil
	}
	for number := l.oldest; number < r.number; number++ {
		if err := syncFile(l.fs, l.path(number), nil, 0); err != nil {
			return err
		}
	}
	var end []byte
	if !r.goesOn {
		end = sealGoesOn(place{r.number, r.end}, 0)
	}
	return syncFile(l.fs, l.path(r.number), end, r.end)
}

// use makes s the current segment.
func (l *Log) use(s *segment, h header) error {
	h.size = s.info.Size()
	if _, err := s.file.WriteAt(h.encode(), 0); err != nil {
		return fmt.Errorf("writing the header of %s: %w", l.path(s.number), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file, l.info, l.header, l.end, l.synced, l.retry = s.file, s.info, h, segmentHeader, 0, 0
	if h.durable {
		l.kept = h.number
	}
	return nil
}

// Append writes a frame, which begins with HeaderSize bytes for the log to
// fill, and returns it with what was appended, to be used again. It is with the
// operating system then.
func (l *Log) Append(frame []byte) ([]byte, error) {
	l.mu.Lock()
	at, synced, failed := place{l.header.number, l.end}, l.synced, l.failed
	l.mu.Unlock()
	if failed != nil {
		return frame, failed
	}
	if len(frame)-HeaderSize > maxPayload {
		return frame, l.fail(fmt.Errorf("writing to %s: a frame of %d bytes is too large", l.path(at.segment), len(frame)))
	}
	frame = seal(frame, at, synced)
	if _, err := l.file.WriteAt(frame, at.offset); err != nil {
		return frame, l.fail(fmt.Errorf("writing to %s: %w", l.path(at.segment), err))
	}
	l.appended(int64(len(frame)))
	return frame, nil
}

// appended notes that so many bytes were written to the current segment.
func (l *Log) appended(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end += bytes
	if l.every > 0 && l.timer == nil && !l.closed {
		l.timer = time.AfterFunc(l.every, l.syncByTimer)
	}
}

// fail notes that the log is of no use any more: an operating system tells of a
// failed sync once, and the next one may well succeed without the lost data.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
	return err
}

// Sync returns when all frames appended before it was called are on the disk.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	return l.sync()
}

// sync does what Sync does. The lock syncing is held.
func (l *Log) sync() error {
	l.mu.Lock()
	number, end := l.header.number, l.end
	done, failed := l.synced == l.end || l.closed, l.failed
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
	if err := l.noteGrowth(end); err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = end
	return nil
}

// noteGrowth has the header say that the segment has so many bytes on the disk,
// if these are more than it was made with. The last frame that was synced has
// none behind it that would prove it, but the end of the file does. The header
// is not synced for that: it outlives the process, and gets to the disk with
// the next frame. The lock syncing is held.
func (l *Log) noteGrowth(end int64) error {
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

// syncEnded syncs the segments before the current one that were not when they
// ended, so that a frame's synced mark vouches for all that came before.
func (l *Log) syncEnded(current uint64) error {
	l.mu.Lock()
	from := max(l.kept, l.oldest)
	l.mu.Unlock()
	for number := from; number < current; number++ {
		err := syncFile(l.fs, l.path(number), nil, 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // it was released meanwhile
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = max(l.kept, current)
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

// CanRotate tells whether the next segment is there.
func (l *Log) CanRotate() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != nil
}

// Full tells whether Rotate would begin a new segment.
func (l *Log) Full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end >= max(l.size, l.retry) && l.next == nil && !l.making {
		l.making = true // it has failed before
		go l.makeNext(l.header.number + 1)
	}
	return l.end >= l.size && l.next != nil
}

// Rotate ends the current segment, whose number it returns, and begins the
// next. It must be Full, or at least CanRotate.
func (l *Log) Rotate() (ended uint64, err error) {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	next, file := l.next, l.file
	l.mu.Unlock()
	if err := LeadsTo(l.fs, l.path(next.number), next.info); err != nil {
		return 0, l.fail(err) // before the current one says that it goes on there
	}
	if err := l.endSegment(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	h := header{number: next.number, used: true, prevEnd: l.end, durable: !l.never}
	ended, l.next = l.header.number, nil
	l.mu.Unlock()
	if err := l.use(next, h); err != nil {
		return 0, l.fail(err)
	}
	if err := file.Close(); err != nil {
		return 0, l.fail(fmt.Errorf("closing %s: %w", l.path(ended), err))
	}
	l.prepareNext()
	return ended, nil
}

// endSegment says at the end of the current segment that there is another one,
// and syncs it. The lock syncing is held.
func (l *Log) endSegment() error {
	l.mu.Lock()
	at, synced, failed := place{l.header.number, l.end}, l.synced, l.failed
	l.mu.Unlock()
	if failed != nil {
		return failed
	}
	if _, err := l.file.WriteAt(sealGoesOn(at, synced), at.offset); err != nil {
		return l.fail(fmt.Errorf("writing to %s: %w", l.path(at.segment), err))
	}
	if l.never {
		return nil
	}
	if err := l.file.SyncData(); err != nil {
		return l.fail(fmt.Errorf("syncing %s: %w", l.path(at.segment), err))
	}
	return nil
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
	return l.oldest, l.header.number
}

// Close syncs all there is, and says in the header of the current segment where
// it ends.
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
		err = fmt.Errorf("closing %s: %w", l.path(l.header.number), e)
	}
	return err
}

func (l *Log) finish() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.sync(); err != nil {
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
