package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// written is a log on a disk, and what its writer knows about it.
type written struct {
	files    map[string][]byte
	names    []string // of the files, in their order
	frames   []string
	last     string // name of the last segment with frames
	begin    int    // its first frame
	start    []int64
	mark     []int64 // the field synced of its frames
	closed   bool
	reopened bool
}

// write writes a log of five segments. Each of its frames was synced.
func write(t testing.TB, closed, reopened bool) *written {
	t.Helper()
	mem := newMem(t)
	w := &written{files: make(map[string][]byte), closed: closed, reopened: reopened}
	random := rand.New(rand.NewPCG(5, 5))
	o := options(t, mem, dir)
	o.Size = 300
	l, _ := mustOpen(t, o, 0)
	for n := 0; l.header.number < 5; n++ {
		w.add(t, l, payload(random, n)[:1+random.IntN(2)]+strings.Repeat("y", random.IntN(60)))
		if reopened && n == 7 {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l, _ = mustOpen(t, o, 1)
			w.begin = len(w.frames)
			w.start, w.mark = nil, nil
		}
		ended, err := rotate(l)
		if err != nil {
			t.Fatal(err)
		}
		if ended > 0 {
			w.begin = len(w.frames)
			w.start, w.mark = nil, nil
		}
	}
	for n := range 6 {
		w.add(t, l, fmt.Sprintf("last %d %s", n, strings.Repeat("z", 11*n)))
	}
	awaitNext(l)
	w.last = fmt.Sprint(prefix, l.header.number)
	if closed {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	} else {
		l.Abandon()
	}
	w.names, _ = mem.List(dir)
	slices.Sort(w.names)
	for _, name := range w.names {
		data, err := readFile(mem, mem.PathJoin(dir, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		w.files[name] = data
	}
	return w
}

func (w *written) add(t testing.TB, l *Log, p string) {
	t.Helper()
	w.frames = append(w.frames, p)
	w.start, w.mark = append(w.start, l.end), append(w.mark, l.synced)
	if err := add(l, p); err != nil {
		t.Fatal(err)
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
}

// open opens a copy of the log in which some files are changed; nil removes a file.
func (w *written) open(t testing.TB, changed map[string][]byte) ([]string, error) {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range w.files {
		if other, ok := changed[name]; ok {
			data = other
		}
		if data == nil {
			continue
		}
		f, err := fs.Create(fs.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		// A copy: under the race detector Pebble overwrites the data that it is given to write.
		if _, err := f.Write(bytes.Clone(data)); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	o := options(t, fs, dir)
	o.Size = 300
	l, got, err := open(o, 1)
	if err == nil {
		l.Abandon()
	}
	return got, err
}

// minReplayed returns how many frames must at least be replayed, or else Open must fail, after
// the bytes between two offsets of a segment were lost.
//
// The header of the next segment proves that all segments but the last were synced. If the log
// was closed, the header of its last segment proves that for all segments. If the log was not
// closed, the last segment may lose frames: those from the first lost one on, if behind it no
// frame is left that was written after that one was synced. That is so for the last frame, and
// if all such later frames are lost as well. To a reader this looks like a power cut before the
// sync.
func (w *written) minReplayed(name string, from, to int64) int {
	if w.closed || name != w.last {
		return len(w.frames)
	}
	if from < segmentHeader {
		return len(w.frames) // no header: always an error
	}
	for i, start := range w.start {
		end := start + HeaderSize + int64(len(w.frames[w.begin+i]))
		if end <= from || start >= to {
			continue
		}
		for j := i; j < len(w.start); j++ {
			intact := w.start[j]+HeaderSize <= from || w.start[j] >= to
			if intact && w.mark[j] > start {
				return len(w.frames)
			}
		}
		return w.begin + i
	}
	return len(w.frames)
}

var namesSegment = regexp.MustCompile(`jobs/log\.\d+`)

// check accepts a replay of all frames, or of as many as must be there, or an error that names
// what is damaged.
func (w *written) check(t *testing.T, what string, changed map[string][]byte, mustExist int) (failed bool) {
	t.Helper()
	got, err := w.open(t, changed)
	if err != nil {
		if !errors.Is(err, ErrDamaged) || !namesSegment.MatchString(err.Error()) {
			t.Fatalf("%s: the error does not name what is damaged: %v", what, err)
		}
		return true
	}
	if diff := prefixOf(got, w.frames, mustExist); diff != "" {
		t.Fatalf("%s: silently lost: %s", what, diff)
	}
	return false
}

// each runs a test on logs that were closed, or not, once or twice.
func each(t *testing.T, test func(t *testing.T, w *written)) {
	for _, closed := range []bool{true, false} {
		for _, reopened := range []bool{true, false} {
			t.Run(fmt.Sprintf("closed %t reopened %t", closed, reopened), func(t *testing.T) {
				w := write(t, closed, reopened)
				got, err := w.open(t, nil)
				if err != nil {
					t.Fatal(err)
				}
				same(t, got, w.frames)
				test(t, w)
			})
		}
	}
}

// TestFlippedBits flips a bit in every byte of the log.
func TestFlippedBits(t *testing.T) {
	each(t, func(t *testing.T, w *written) {
		random := rand.New(rand.NewPCG(6, 6))
		flips, failed := 0, 0
		for _, name := range w.names {
			for at := range w.files[name] {
				data := bytes.Clone(w.files[name])
				data[at] ^= 1 << random.IntN(8)
				mustExist := w.minReplayed(name, int64(at), int64(at+1))
				if w.check(t, fmt.Sprintf("byte %d of %s flipped", at, name), map[string][]byte{name: data}, mustExist) {
					failed++
				}
				flips++
			}
		}
		t.Logf("%d flips, %d of them found to be damage", flips, failed)
		if failed < flips*2/3 {
			t.Errorf("only %d of %d flips were found", failed, flips)
		}
	})
}

// TestTruncated truncates every segment at every byte. Everything that was synced must be
// there, or the log must be refused. That includes the last segment, which has grown beyond its
// initial size.
func TestTruncated(t *testing.T) {
	each(t, func(t *testing.T, w *written) {
		if grown := len(w.files[w.last]); grown <= 300 {
			t.Fatalf("%s has only %d bytes", w.last, grown)
		}
		for _, name := range w.names {
			data := w.files[name]
			for at := range data {
				w.check(t, fmt.Sprintf("%s cut off at %d", name, at), map[string][]byte{name: data[:at:at]}, len(w.frames))
			}
		}
	})
}

// TestOverwritten overwrites ranges with zeros, with random bytes, or with other parts of the
// log.
func TestOverwritten(t *testing.T) {
	each(t, func(t *testing.T, w *written) {
		random := rand.New(rand.NewPCG(7, 7))
		for range 1500 {
			name := w.names[random.IntN(len(w.names))]
			data := bytes.Clone(w.files[name])
			from := random.IntN(len(data))
			to := from + 1 + random.IntN(len(data)-from)
			other := w.files[w.names[random.IntN(len(w.names))]]
			kind := random.IntN(3)
			for i := from; i < to; i++ {
				switch kind {
				case 0:
					data[i] = 0
				case 1:
					data[i] = byte(random.Uint32())
				default:
					data[i] = other[min(i, len(other)-1)]
				}
			}
			whole := w.files[name]
			for from < to && data[from] == whole[from] {
				from++
			}
			for from < to && data[to-1] == whole[to-1] {
				to--
			}
			mustExist := w.minReplayed(name, int64(from), int64(to))
			w.check(t, fmt.Sprintf("bytes %d to %d of %s overwritten (%d)", from, to, name, kind), map[string][]byte{name: data}, mustExist)
		}
	})
}

// TestWrongSegments removes segments, swaps them, and replaces one by another.
func TestWrongSegments(t *testing.T) {
	each(t, func(t *testing.T, w *written) {
		for _, a := range w.names {
			if failed := w.check(t, a+" removed", map[string][]byte{a: nil}, len(w.frames)); failed != (a <= w.last) {
				t.Errorf("%s removed: failed %t, and the last one is %s", a, failed, w.last)
			}
			for _, b := range w.names {
				if a == b {
					continue
				}
				for what, changed := range map[string]map[string][]byte{
					"swapped":        {a: w.files[b], b: w.files[a]},
					"in the place":   {a: w.files[b]},
					"renamed":        {a: w.files[b], b: nil},
					"empty, no such": {a: {}, b: nil},
				} {
					if !w.check(t, a+", "+b+" "+what, changed, len(w.frames)) {
						t.Errorf("%s and %s %s: it was not noticed", a, b, what)
					}
				}
			}
		}
		for n := range len(w.names) - 1 {
			rest := make(map[string][]byte)
			for _, name := range w.names[n:] {
				rest[name] = nil
			}
			if w.names[n] <= w.last && !w.check(t, "all from "+w.names[n]+" on removed", rest, len(w.frames)) {
				t.Errorf("all from %s on removed: it was not noticed", w.names[n])
			}
		}
	})
}

// slowData is data that is slow to read: plausible lengths at every offset, or valid headers,
// each of a frame that would reach to the end.
func slowData(size int, forged bool) []byte {
	h := header{number: 1, used: true, durable: true}
	data := make([]byte, size)
	copy(data, h.encode())
	for at := segmentHeader; at+HeaderSize <= size; at += align {
		switch {
		case !forged:
			binary.BigEndian.PutUint32(data[at:], uint32((size-at)/2))
			binary.BigEndian.PutUint32(data[at+4:], 1)
		case at%HeaderSize == 0:
			putHeader(data[at:], position{1, int64(at)}, frame{uint32(size - at - HeaderSize), 1, 0})
		}
	}
	return data
}

// TestHostileData: data from a client must not make a start slow when it is read at the wrong
// offset. If all of each plausible frame were read, this would take hours.
func TestHostileData(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	for _, forged := range []bool{false, true} {
		begun := time.Now()
		w := &written{files: map[string][]byte{"log.1": slowData(16<<20, forged)}}
		if _, err := w.open(t, nil); err != nil && !errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("it took %v", took)
		}
	}
}

// FuzzReplay opens a log of one segment with any data, as it is or behind a valid header. It
// must be read or refused. If it was read, a second start must read the same.
func FuzzReplay(f *testing.F) {
	w := write(f, false, false)
	for _, name := range w.names {
		f.Add(w.files[name], false)
	}
	f.Add(w.files["log.1"][segmentHeader:], true)
	f.Add(slowData(1<<10, true)[segmentHeader:], true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, data []byte, headed bool) {
		if headed {
			h := header{number: 1, used: true}
			data = append(h.encode(), data...)
		}
		fs := vfs.NewMem()
		if err := fs.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		file, err := fs.Create(fs.PathJoin(dir, "log.1"), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
		file.Close()
		l, first, err := open(options(t, fs, dir), 0)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if err := add(l, "more"); err != nil {
			t.Fatal(err)
		}
		l.Abandon()
		l, second := mustOpen(t, options(t, fs, dir), 1)
		same(t, second, append(slices.Clone(first), "more"))
		l.Abandon()
	})
}
