package wal

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDamaged is in the chain of Open's error if frames that were on the disk can no longer be
// read.
var ErrDamaged = errors.New("the log is damaged")

// prefix is the name of a segment without its number.
const prefix = "log."

func (l *Log) path(number uint64) string {
	return l.fs.PathJoin(l.dir, prefix+strconv.FormatUint(number, 10))
}

// Numbers returns the numbers of the segments in a directory, in ascending order.
func Numbers(fs vfs.FS, dir string) ([]uint64, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, fmt.Errorf("listing the segments: %w", err)
	}
	var numbers []uint64
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.ParseUint(digits, 10, 64); ok && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// Exists reports whether a directory has a segment: a file with the name and the header of one.
func Exists(fs vfs.FS, dir string) bool {
	numbers, err := Numbers(fs, dir)
	if err != nil {
		return false
	}
	for _, number := range numbers {
		f, err := fs.Open(fs.PathJoin(dir, prefix+strconv.FormatUint(number, 10)))
		if err != nil {
			continue
		}
		b := make([]byte, segmentHeader)
		_, err = io.ReadFull(f, b)
		f.Close()
		if _, ok := decodeHeader(b, number); ok && err == nil {
			return true
		}
	}
	return false
}

// reader replays segments.
type reader struct {
	*Log
	replay func(payload []byte) error

	// The last segment that was replayed:
	number    uint64 // 0: there is none
	header    header
	end       int64  // where its frames end
	continued bool   // the frame there says that the log continues
	data      []byte // all of the file
	spare     []byte // the memory of the one before it
}

// read replays all segments from first on. It returns the number of the first one that does not
// count: it was prepared but not used, or it is behind a torn end. mustExist says that segment
// first has to be there.
func (r *reader) read(first uint64, mustExist bool, numbers []uint64) (unused uint64, err error) {
	for i, number := range numbers {
		if want := first + uint64(i); number != want {
			return 0, r.missing(want)
		}
		h, data, err := r.segment(number)
		if err != nil {
			return 0, err
		}
		if !r.follows(h) {
			if err := r.checkEnd(provesSynced(h, data)); err != nil {
				return 0, err
			}
			return number, r.checkUnused(numbers[i+1:])
		}
		r.spare, r.data = r.data[:0], data // data is not overwritten while it is the last segment
		r.number, r.header = number, h
		if err := r.frames(); err != nil {
			return 0, fmt.Errorf("reading %s: %w", r.path(number), err)
		}
	}
	unused = first + uint64(len(numbers))
	if r.continued || mustExist && len(numbers) == 0 {
		return 0, r.missing(unused)
	}
	return unused, r.checkEnd(false)
}

func (r *reader) missing(number uint64) error {
	return fmt.Errorf("%w: %s is missing", ErrDamaged, r.path(number))
}

// segment reads a segment and its header. Every segment has one.
func (r *reader) segment(number uint64) (h header, data []byte, err error) {
	if data, err = readFile(r.fs, r.path(number), r.spare); err != nil {
		return h, nil, err
	}
	r.spare = data[:0]
	h, ok := decodeHeader(data, number)
	if !ok {
		return h, nil, fmt.Errorf("%w: %s has no header of segment %d", ErrDamaged, r.path(number), number)
	}
	if int64(len(data)) < h.size {
		return h, nil, fmt.Errorf("%w: %s ends at byte %d, and it had %d bytes", ErrDamaged, r.path(number), len(data), h.size)
	}
	return h, data, nil
}

// follows reports whether a segment was used, and begins where the last one ends. If it was
// used and begins elsewhere, the last one has lost its end.
func (r *reader) follows(h header) bool {
	return h.used && (r.number == 0 || h.prevEnd == r.end)
}

// provesSynced reports whether a segment proves that all segments before it had been on the
// disk: a segment is synced after those before it.
func provesSynced(h header, data []byte) bool {
	return h.used && (h.durable || h.closed > 0 || syncedAfter(data, position{h.number, segmentHeader}) > 0)
}

// checkUnused fails if one of the segments behind an unused one proves that it had been on the
// disk.
func (r *reader) checkUnused(numbers []uint64) error {
	for _, number := range numbers {
		h, data, err := r.segment(number)
		if err != nil {
			return err
		}
		if provesSynced(h, data) {
			return fmt.Errorf("%w: %s continues where nothing can be read", ErrDamaged, r.path(number))
		}
	}
	return nil
}

// checkEnd fails if there had been frames on the disk behind the end of the frames of the last
// segment. synced says that a later segment proves that.
func (r *reader) checkEnd(synced bool) error {
	switch {
	case r.number == 0:
		return nil
	case synced, r.header.closed > r.end:
	case r.continued, syncedAfter(r.data, position{r.number, r.end}) <= r.end:
		return nil
	}
	return fmt.Errorf("%w: there is no frame at byte %d of %s, where one had been written", ErrDamaged, r.end, r.path(r.number))
}

// frames replays the frames of the segment in r.data, up to the first that cannot be read.
func (r *reader) frames() error {
	r.end, r.continued = segmentHeader, false
	for {
		f, ok := headerAt(r.data, position{r.number, r.end})
		if !ok {
			return nil
		}
		if r.continued = f.length == continued; r.continued {
			return nil
		}
		payload, ok := f.payload(r.data, r.end)
		if !ok {
			return nil
		}
		if err := r.replay(payload); err != nil {
			return fmt.Errorf("frame at byte %d: %w", r.end, err)
		}
		r.end = f.next(r.end)
	}
}

// readFile reads a file, into room if that is large enough.
func readFile(fs vfs.FS, path string, room []byte) ([]byte, error) {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, fmt.Errorf("opening a segment: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	data := slices.Grow(room[:0], int(info.Size()))[:info.Size()]
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}
