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

// list returns the numbers of the segments there are, in order.
func (l *Log) list() ([]uint64, error) {
	names, err := l.fs.List(l.dir)
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

	number uint64 // of the last segment with a header
	end    int64  // where its frames end
	data   []byte // all of it
}

// read replays all segments from first on. It returns the first one that does
// not count: it was prepared but not used, or is behind a torn end.
func (r *reader) read(first uint64, numbers []uint64) (unused uint64, err error) {
	for i, number := range numbers {
		if want := first + uint64(i); number != want {
			return 0, fmt.Errorf("%w: %s is missing", ErrDamaged, r.path(want))
		}
		data, err := readFile(r.fs, r.path(number))
		if err != nil {
			return 0, err
		}
		h, ok := decodeHeader(data, number)
		switch torn, err := r.check(h, ok, number, data); {
		case err != nil:
			return 0, err
		case torn:
			return number, r.checkUnused(numbers[i+1:])
		}
		r.number, r.data = number, data
		if err := r.frames(); err != nil {
			return 0, fmt.Errorf("reading %s: %w", r.path(number), err)
		}
	}
	if err := r.checkEnd(false); err != nil {
		return 0, err
	}
	return first + uint64(len(numbers)), nil
}

// check tells whether segment number goes on where the one before it has
// ended. If not, that one has lost its end, or this one was never begun: torn
// if that may be so, an error if it may not.
func (r *reader) check(h header, ok bool, number uint64, data []byte) (torn bool, err error) {
	if !ok {
		if provenAfter(data, place{number, segmentHeader}) > 0 {
			return false, fmt.Errorf("%w: %s has no header", ErrDamaged, r.path(number))
		}
		return true, r.checkEnd(false)
	}
	if r.number == 0 || h.prevEnd == r.end {
		return false, nil
	}
	proof := h.durable || provenAfter(data, place{number, segmentHeader}) > 0
	return true, r.checkEnd(proof)
}

// checkUnused fails if one of the segments behind an unused one holds frames
// that were on the disk.
func (r *reader) checkUnused(numbers []uint64) error {
	for _, number := range numbers {
		data, err := readFile(r.fs, r.path(number))
		if err != nil {
			return err
		}
		if h, ok := decodeHeader(data, number); ok && h.durable || provenAfter(data, place{number, segmentHeader}) > 0 {
			return fmt.Errorf("%w: %s goes on where nothing can be read", ErrDamaged, r.path(number))
		}
	}
	return nil
}

// checkEnd fails if there were frames behind the place where those of the last
// segment end; proven tells that there were.
func (r *reader) checkEnd(proven bool) error {
	if proven || r.number != 0 && provenAfter(r.data, place{r.number, r.end}) > r.end {
		return fmt.Errorf("%w: there is no frame at byte %d of %s, where one had been written", ErrDamaged, r.end, r.path(r.number))
	}
	return nil
}

// frames replays the frames of the segment in r.data.
func (r *reader) frames() error {
	r.end = segmentHeader
	for {
		payload, _, next, ok := frameAt(r.data, place{r.number, r.end})
		if !ok {
			return nil
		}
		if len(payload) > 0 {
			if err := r.replay(payload); err != nil {
				return fmt.Errorf("frame at byte %d: %w", r.end, err)
			}
		}
		r.end = next
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
