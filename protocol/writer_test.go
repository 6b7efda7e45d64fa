package protocol

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

var aJob, justEnds, aPage = []byte("job"), []byte("\r\n"), []byte("---\n- default\n")

var replies = []struct {
	want  string
	reply func(w *Writer)
}{
	{"INSERTED 12\r\n", func(w *Writer) { w.Inserted(12) }},
	{"INSERTED 18446744073709551615\r\n", func(w *Writer) { w.Inserted(1<<64 - 1) }},
	{"BURIED 12\r\n", func(w *Writer) { w.BuriedPut(12) }},
	{"BURIED\r\n", func(w *Writer) { w.Done(Bury) }},
	{"RESERVED 1 3\r\njob\r\n", func(w *Writer) { w.Reserved(1, aJob, nil) }},
	{"RESERVED 1 0\r\n\r\n", func(w *Writer) { w.Reserved(1, nil, nil) }},
	{"FOUND 7 2\r\n\r\n\r\n", func(w *Writer) { w.Found(7, justEnds, nil) }},
	{"DELETED\r\n", func(w *Writer) { w.Done(Delete) }},
	{"RELEASED\r\n", func(w *Writer) { w.Done(Release) }},
	{"TOUCHED\r\n", func(w *Writer) { w.Done(Touch) }},
	{"KICKED 3\r\n", func(w *Writer) { w.Kicked(3) }},
	{"KICKED 0\r\n", func(w *Writer) { w.Kicked(0) }},
	{"KICKED\r\n", func(w *Writer) { w.Done(KickJob) }},
	{"NOT_FOUND\r\n", (*Writer).NotFound},
	{"USING default\r\n", func(w *Writer) { w.Using("default") }},
	{"WATCHING 2\r\n", func(w *Writer) { w.Watching(2) }},
	{"NOT_IGNORED\r\n", (*Writer).NotIgnored},
	{"PAUSED\r\n", func(w *Writer) { w.Done(PauseTube) }},
	{"TIMED_OUT\r\n", (*Writer).TimedOut},
	{"DEADLINE_SOON\r\n", (*Writer).DeadlineSoon},
	{"DRAINING\r\n", (*Writer).Draining},
	{"INSERTED 12 BURIED\r\n", func(w *Writer) { w.InsertedAs(12, "BURIED") }},
	{"INSERTED 18446744073709551615 GONE\r\n", func(w *Writer) { w.InsertedAs(1<<64-1, "GONE") }},
	{"DUPLICATE 12\r\n", func(w *Writer) { w.Duplicate(12) }},
	{"SET\r\n", func(w *Writer) { w.Done(SetPolicy) }},
	{"LEASED 1 00000000000000000007 3\r\njob\r\n", func(w *Writer) { w.Leased(1, 7, aJob, nil) }},
	{"LEASED 1 18446744073709551615 0\r\n\r\n", func(w *Writer) { w.Leased(1, 1<<64-1, nil, nil) }},
	{"BATCH_SEALED\r\n", func(w *Writer) { w.BatchSealed() }},
	{"CANCELLED 3\r\n", func(w *Writer) { w.Cancelled(3) }},
	{"FLUSHED 3\r\n", func(w *Writer) { w.FlushedJobs(3) }},
	{"MOVED 0\r\n", func(w *Writer) { w.Moved(0) }},
	{"DELETED_BATCH 3 1\r\n", func(w *Writer) { w.DeletedBatch(3, 1) }},
	{"BAD_FORMAT\r\n", (*Writer).BadFormat},
	{"UNKNOWN_COMMAND\r\n", (*Writer).UnknownCommand},
	{"JOB_TOO_BIG\r\n", (*Writer).JobTooBig},
	{"EXPECTED_CRLF\r\n", (*Writer).ExpectedCRLF},
	{"OUT_OF_MEMORY\r\n", (*Writer).OutOfMemory},
	{"INTERNAL_ERROR\r\n", (*Writer).InternalError},
	{"AUTHENTICATED\r\n", func(w *Writer) { w.Done(Auth) }},
	{"UNAUTHORIZED\r\n", (*Writer).Unauthorized},
	{"FORBIDDEN\r\n", (*Writer).Forbidden},
	{"OK 14\r\n---\n- default\n\r\n", func(w *Writer) { w.OK(aPage) }},
	{"BAD_FORMAT\r\n", func(w *Writer) { w.Fault(BadFormat) }},
	{"UNKNOWN_COMMAND\r\n", func(w *Writer) { w.Fault(UnknownCommand) }},
	{"JOB_TOO_BIG\r\n", func(w *Writer) { w.Fault(JobTooBig) }},
	{"EXPECTED_CRLF\r\n", func(w *Writer) { w.Fault(ExpectedCRLF) }},
	{"INTERNAL_ERROR\r\n", func(w *Writer) { w.Fault(NoFault) }},
	{"INTERNAL_ERROR\r\n", func(w *Writer) { w.Fault(99) }},
}

func TestReplies(t *testing.T) {
	for _, tc := range replies {
		var out bytes.Buffer
		w := NewWriter(&out)
		tc.reply(w)
		if w.Buffered() != len(tc.want) || out.Len() != 0 {
			t.Errorf("%q: %d buffered, %d sent", tc.want, w.Buffered(), out.Len())
		}
		if err := w.Flush(); err != nil || out.String() != tc.want {
			t.Errorf("got %q, want %q (%v)", out.String(), tc.want, err)
		}
		if word := strings.FieldsFunc(tc.want, func(r rune) bool { return r == ' ' || r == '\r' })[0]; w.Last() != word {
			t.Errorf("last is %q, want %q", w.Last(), word)
		}
		if tc.reply(w); testing.AllocsPerRun(100, func() { w.Flush(); out.Reset(); tc.reply(w) }) != 0 {
			t.Errorf("%q allocates", tc.want)
		}
	}
}

// recorder records each Write.
type recorder struct{ writes []string }

func (r *recorder) Write(p []byte) (int, error) {
	r.writes = append(r.writes, string(p))
	return len(p), nil
}

func TestOneWriteABurst(t *testing.T) {
	var rec recorder
	w := NewWriter(&rec)
	w.Flush()
	w.Using("a")
	w.Reserved(1, make([]byte, byReference-1), nil)
	w.Done(Delete)
	w.Flush()
	w.Flush()
	if len(rec.writes) != 1 || len(rec.writes[0]) != 9+17+byReference-1+2+9 {
		t.Errorf("%d writes", len(rec.writes))
	}
}

// TestLargeBodies checks that large bodies and small replies keep their order, on a socket (writev)
// and elsewhere, over several bursts.
func TestLargeBodies(t *testing.T) {
	burst := func(w *Writer) (want string) {
		for i := range 30 {
			body := bytes.Repeat([]byte{'a' + byte(i%26)}, i*1000)
			w.Reserved(uint64(i), body, nil)
			w.Done(Delete)
			w.Leased(uint64(i), 5, body, nil)
			want += "RESERVED " + itoa(i) + " " + itoa(len(body)) + "\r\n" + string(body) + "\r\nDELETED\r\n"
			want += "LEASED " + itoa(i) + " 00000000000000000005 " + itoa(len(body)) + "\r\n" + string(body) + "\r\n"
		}
		return want
	}
	var out bytes.Buffer
	w := NewWriter(&out)
	for range 3 {
		out.Reset()
		want := burst(w)
		if w.Buffered() != len(want) {
			t.Errorf("%d buffered, want %d", w.Buffered(), len(want))
		}
		if err := w.Flush(); err != nil || out.String() != want || w.Buffered() != 0 {
			t.Errorf("bytes differ, %v", err)
		}
	}

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer ln.Close()
	got := make(chan string, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		all, _ := io.ReadAll(conn)
		got <- string(all)
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	w = NewWriter(conn)
	want := ""
	for range 3 {
		want += burst(w)
		if err := w.Flush(); err != nil {
			t.Error(err)
		}
	}
	conn.Close()
	if <-got != want {
		t.Error("bytes over TCP differ")
	}
}

// A page can be reused before it was sent.
func TestPageIsCopied(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	var p Page
	p.Bare("a", strings.Repeat("x", 2*byReference))
	want := "OK " + itoa(len(p.Bytes())) + "\r\n" + string(p.Bytes()) + "\r\n"
	w.OK(p.Bytes())
	p.Reset()
	p.Bare("b", strings.Repeat("y", 2*byReference))
	if w.Flush(); out.String() != want {
		t.Error("the page has changed before it was sent")
	}
}

func TestFlushErrors(t *testing.T) {
	first := errors.New("first")
	for _, size := range []int{1, 2 * byReference} {
		calls := 0
		w := NewWriter(writerFunc(func(p []byte) (int, error) { calls++; return 0, first }))
		w.Reserved(1, make([]byte, size), nil)
		if err := w.Flush(); err != first || w.Buffered() != 0 {
			t.Errorf("%v, %d left", err, w.Buffered())
		}
		w.Reserved(2, make([]byte, size), nil)
		if err := w.Flush(); err != first || calls != 1 || w.Buffered() != 0 || w.Flush() != first {
			t.Errorf("%v after %d calls, %d left", err, calls, w.Buffered())
		}
		for _, b := range w.bufs[:cap(w.bufs)] {
			if b != nil {
				t.Error("a body is still referenced")
			}
		}
		w = NewWriter(writerFunc(func(p []byte) (int, error) { return len(p) / 2, nil }))
		w.Reserved(1, make([]byte, size), nil)
		if err := w.Flush(); err != io.ErrShortWrite {
			t.Error(err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestWriterFreesMemory checks that the memory of a large burst is freed.
func TestWriterFreesMemory(t *testing.T) {
	w := NewWriter(io.Discard)
	large := make([]byte, byReference)
	for range 5000 {
		w.Reserved(1, large, nil)
		w.Reserved(2, large[:byReference-1], nil)
	}
	w.Flush()
	if cap(w.buf) > keepBuffer || cap(w.refs) > keepRefs || cap(w.bufs) > 2*keepRefs+1 {
		t.Errorf("keeps %d bytes, %d refs, %d bufs", cap(w.buf), cap(w.refs), cap(w.bufs))
	}
	w.Done(Delete)
	if w.Flush(); cap(w.buf) == 0 {
		t.Error("a small buffer is not kept")
	}
}

func TestLargeBodyAllocations(t *testing.T) {
	w := NewWriter(io.Discard)
	body := make([]byte, 10_000)
	w.Reserved(1, body, nil)
	w.Flush()
	if n := testing.AllocsPerRun(100, func() { w.Reserved(1, body, nil); w.Done(Delete); w.Flush() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWriter(b *testing.B) {
	body := make([]byte, 128)
	large := make([]byte, 16<<10)
	for _, bc := range []struct {
		name  string
		reply func(w *Writer)
	}{
		{"inserted", func(w *Writer) { w.Inserted(1234567) }},
		{"reserved128", func(w *Writer) { w.Reserved(1234567, body, nil) }},
		{"reserved16k", func(w *Writer) { w.Reserved(1234567, large, nil) }},
		{"deleted", func(w *Writer) { w.Done(Delete) }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			w := NewWriter(io.Discard)
			b.ReportAllocs()
			for b.Loop() {
				if bc.reply(w); w.Buffered() > 32<<10 {
					w.Flush()
				}
			}
		})
	}
}
