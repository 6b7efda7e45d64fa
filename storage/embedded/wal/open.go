package wal

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Open opens the log in a directory, replays its frames from segment first on, and begins a new
// segment. If first is 0 the log need not exist, and all of it is replayed. The payload is
// valid until replay returns.
func Open(o Options, first uint64, replay func(payload []byte) error) (*Log, error) {
	mustExist := first > 0
	first = max(first, 1)
	l := &Log{
		fs: o.FS, dir: o.Dir, size: max(o.Size, segmentHeader), every: o.SyncEvery, never: o.Never,
		log: o.Log, fatal: o.Fatal, oldest: first,
	}
	l.idle.L = &l.mu
	numbers, err := l.removeBefore(first)
	if err != nil {
		return nil, err
	}
	r := &reader{Log: l, replay: replay}
	unused, err := r.read(first, mustExist, numbers)
	if err != nil {
		return nil, err
	}
	if err := l.beginSegment(r, unused, numbers); err != nil {
		return nil, err
	}
	l.prepareNext()
	return l, nil
}

// Read replays the frames of the log in a directory as Open does, and writes nothing.
func Read(fs vfs.FS, dir string, first uint64, replay func(payload []byte) error) error {
	numbers, err := Numbers(fs, dir)
	if err != nil {
		return err
	}
	r := &reader{Log: &Log{fs: fs, dir: dir}, replay: replay}
	numbers = slices.DeleteFunc(numbers, func(number uint64) bool { return number < first })
	_, err = r.read(max(first, 1), first > 0, numbers)
	return err
}

// removeBefore removes the segments before first, and returns the numbers of the others.
func (l *Log) removeBefore(first uint64) (numbers []uint64, err error) {
	if numbers, err = Numbers(l.fs, l.dir); err != nil {
		return nil, err
	}
	for len(numbers) > 0 && numbers[0] < first {
		if err := l.fs.Remove(l.path(numbers[0])); err != nil {
			return nil, fmt.Errorf("removing an old segment: %w", err)
		}
		numbers = numbers[1:]
	}
	return numbers, nil
}

// beginSegment makes segment unused the current one, behind what r has read. It removes the
// segments behind that.
func (l *Log) beginSegment(r *reader, unused uint64, numbers []uint64) error {
	for _, number := range numbers {
		if number <= unused {
			continue
		}
		l.log.Warn("a segment behind the torn end of the log is removed", "file", l.path(number))
		if err := l.fs.Remove(l.path(number)); err != nil {
			return fmt.Errorf("removing an unused segment: %w", err)
		}
	}
	s, err := l.prepare(unused, "", min(l.size, maxZeros))
	if err != nil {
		s, err = l.prepare(unused, "", 0) // a full disk may have room for less
	}
	if err != nil {
		return err
	}
	if err := l.syncReplayed(r); err != nil {
		s.file.Close()
		return err
	}
	return l.makeCurrent(s, header{number: unused, used: true, prevEnd: r.end, durable: true})
}

// syncReplayed syncs everything that was replayed, and writes at its end that the log
// continues.
func (l *Log) syncReplayed(r *reader) error {
	if r.number == 0 {
		return nil
	}
	for number := l.oldest; number < r.number; number++ {
		if err := syncFile(l.fs, l.path(number), nil, 0); err != nil {
			return err
		}
	}
	var end []byte
	if !r.continued {
		end = sealContinued(position{r.number, r.end}, 0)
	}
	return syncFile(l.fs, l.path(r.number), end, r.end)
}

// makeCurrent makes s the current segment.
func (l *Log) makeCurrent(s *segment, h header) error {
	h.size = s.info.Size()
	if _, err := s.file.WriteAt(h.encode(), 0); err != nil {
		return fmt.Errorf("writing the header of %s: %w", l.path(s.number), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file, l.info, l.header, l.end, l.synced, l.retry = s.file, s.info, h, segmentHeader, 0, 0
	if h.durable {
		l.durableFrom = h.number
	}
	return nil
}
