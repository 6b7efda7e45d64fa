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

// ErrDamaged is in the chain of Open's error when frames that were on the disk
// cannot be read any more.
var ErrDamaged = errors.New("the log is damaged")

const prefix = "log."

func (l *Log) path(number uint64) string {
	return l.fs.PathJoin(l.dir, prefix+strconv.FormatUint(number, 10))
}

// Numbers returns the numbers of the segments in a directory, in their order.
func Numbers(fs vfs.FS, dir string) ([]uint64, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, fmt.Errorf("listing the segments: %w", err)
	}
	var numbers []uint64
	for _, name := range names {
		digits, is := strings.CutPrefix(name, prefix)
		if n, err := strconv.ParseUint(digits, 10, 64); is && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// reader replays segments.
type reader struct {
	*Log
	replay func(payload []byte) error

	number uint64 // of the last segment that was replayed; 0 if none
	header header // its
	end    int64  // where its frames end
	goesOn bool   // a frame there says that the next segment is there
	data   []byte // all of it
}

// read replays all segments from first on. It returns the first one that does
// not count: it was prepared but not used, or is behind a torn end. must says
// that the first segment is there.
func (r *reader) read(first uint64, must bool, numbers []uint64) (unused uint64, err error) {
	for i, number := range numbers {
		if want := first + uint64(i); number != want {
			return 0, r.missing(want)
		}
		h, data, err := r.segment(number)
		if err != nil {
			return 0, err
		}
		if !r.follows(h) {
			if err := r.checkEnd(vouches(h, data)); err != nil {
				return 0, err
			}
			return number, r.checkUnused(numbers[i+1:])
		}
		r.number, r.header, r.data = number, h, data
		if err := r.frames(); err != nil {
			return 0, fmt.Errorf("reading %s: %w", r.path(number), err)
		}
	}
	unused = first + uint64(len(numbers))
	if r.goesOn || must && len(numbers) == 0 {
		return 0, r.missing(unused)
	}
	return unused, r.checkEnd(false)
}

func (r *reader) missing(number uint64) error {
	return fmt.Errorf("%w: %s is missing", ErrDamaged, r.path(number))
}

// segment reads a segment, which gets its name only when its header is on the
// disk.
func (r *reader) segment(number uint64) (h header, data []byte, err error) {
	if data, err = readFile(r.fs, r.path(number)); err != nil {
		return h, nil, err
	}
	h, ok := decodeHeader(data, number)
	if !ok {
		return h, nil, fmt.Errorf("%w: %s has no header of segment %d", ErrDamaged, r.path(number), number)
	}
	if int64(len(data)) < h.size {
		return h, nil, fmt.Errorf("%w: %s ends at byte %d, and it had %d bytes", ErrDamaged, r.path(number), len(data), h.size)
	}
	return h, data, nil
}

// follows tells whether a segment was used and goes on where the last one ends.
// If not, that one has lost its end.
func (r *reader) follows(h header) bool {
	return h.used && (r.number == 0 || h.prevEnd == r.end)
}

// vouches tells whether all segments before this one had been on the disk: a
// sync of one comes after the syncs of those before it.
func vouches(h header, data []byte) bool {
	return h.used && (h.durable || h.closed > 0 || provenAfter(data, place{h.number, segmentHeader}) > 0)
}

// checkUnused fails if one of the segments behind an unused one holds frames
// that were on the disk.
func (r *reader) checkUnused(numbers []uint64) error {
	for _, number := range numbers {
		h, data, err := r.segment(number)
		if err != nil {
			return err
		}
		if vouches(h, data) {
			return fmt.Errorf("%w: %s goes on where nothing can be read", ErrDamaged, r.path(number))
		}
	}
	return nil
}

// checkEnd fails if there were frames behind the place where those of the last
// segment end; proven tells that there were.
func (r *reader) checkEnd(proven bool) error {
	switch {
	case r.number == 0:
		return nil
	case proven, r.header.closed > r.end:
	case r.goesOn, provenAfter(r.data, place{r.number, r.end}) <= r.end:
		return nil
	}
	return fmt.Errorf("%w: there is no frame at byte %d of %s, where one had been written", ErrDamaged, r.end, r.path(r.number))
}

// frames replays the frames of the segment in r.data.
func (r *reader) frames() error {
	r.end, r.goesOn = segmentHeader, false
	for {
		f, ok := headerAt(r.data, place{r.number, r.end})
		if !ok {
			return nil
		}
		if r.goesOn = f.length == goesOn; r.goesOn {
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

func readFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, fmt.Errorf("opening a segment: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}
