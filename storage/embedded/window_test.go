package embedded

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// newHolding opens an engine whose windows are held back, and end after two segments at most.
func newHolding(t *testing.T) (*Engine, *disk) {
	d := newDisk()
	d.segment, d.windowBytes = crashSegment, 2*crashSegment
	return mustOpen(t, d.options(t)), d
}

// passThrough puts a job and deletes it, again and again, until ended segments of the log
// have ended. A segment ends some time after it is full: until then the jobs have no bodies, so that
// a busy machine does not add bytes to the window.
func passThrough(t *testing.T, e *Engine, ended uint64) {
	t.Helper()
	body := make([]byte, 10<<10)
	_, begun := segments(e)
	for n := range ended {
		bytes := uint64(0)
		for _, current := segments(e); current <= begun+n; _, current = segments(e) {
			if bytes += uint64(len(body)); bytes > e.journal.maxSize+10<<10 {
				body = nil
			}
			id := do(t, e, storage.Op{Kind: storage.Put, Tube: "a", Body: body})[0].Answer.ID
			do(t, e, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: id})
		}
		body = make([]byte, 10<<10)
	}
}

// awaitTables waits until the tables have everything that was handed to them.
func awaitTables(t *testing.T, e *Engine) {
	t.Helper()
	eventually(t, "the tables to catch up", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.journal.behind == 0
	})
}

// TestShortLivedIsNeverStored: a job that is deleted before its window is written, even if a
// segment or a window has ended meanwhile, leaves nothing in the tables: neither a record nor a
// key that removes one.
func TestShortLivedIsNeverStored(t *testing.T) {
	e, d := newHolding(t)
	for range 8 {
		id := do(t, e, storage.Op{Kind: storage.Put, Tube: "a", Delay: 100, Body: make([]byte, 20<<10)})[0].Answer.ID
		passThrough(t, e, 1) // its window ends, too
		do(t, e, storage.Op{Kind: storage.Move, Move: tube.KickJob, ID: id})
		do(t, e, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: id})
	}
	awaitTables(t, e)
	if oldest, current := segments(e); oldest == 1 || current-oldest > 8 {
		t.Errorf("segments %d to %d are there: no window was written, or too few", oldest, current)
	}
	if n := e.journal.tables.Migrated(); n != 0 {
		t.Errorf("%d records came to the tables, although every job was deleted soon", n)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = mustOpen(t, d.options(t))
	defer e.Close()
	if e.machine.LastID() == 0 || e.machine.BodyBytes() != 0 {
		t.Errorf("after a start the last id is %d, and there are %d bytes of bodies", e.machine.LastID(), e.machine.BodyBytes())
	}
}

// TestHeldIsWrittenInTime: if no more segments end, those that have ended are written and
// released after a while.
func TestHeldIsWrittenInTime(t *testing.T) {
	e, d := newHolding(t)
	defer e.Close()
	job := do(t, e, storage.Op{Kind: storage.Put, Tube: "b", Body: []byte("job")})[0].Answer.ID
	passThrough(t, e, 1)
	tick := func(after time.Duration) (oldest, current uint64) {
		d.clock.advance(after)
		if _, err := e.Tick(); err != nil {
			t.Fatal(err)
		}
		awaitTables(t, e)
		return segments(e)
	}
	if oldest, _ := tick(maxWindowAge.Until(0) - time.Second); oldest != 1 {
		t.Error("the window is not held")
	}
	if oldest, current := tick(2 * time.Second); oldest != current {
		t.Errorf("segments %d to %d are still there", oldest, current)
	}
	if n := e.journal.tables.Migrated(); n != 1 {
		t.Errorf("%d records came to the tables, want that of job %d", n, job)
	}
}

// TestManyBodiesAreNotHeld: windows are written at once while more bodies are in memory than
// can be held. When there are fewer, windows are held again.
func TestManyBodiesAreNotHeld(t *testing.T) {
	atLength(t)
	d := newDisk()
	d.windowBytes = 4 * maxHeldBytes
	o := d.options(t)
	o.KeepBodies = 1
	e := mustOpen(t, o)
	defer e.Close()
	body := make([]byte, 8<<20)
	for range maxHeldBytes/len(body) + 1 {
		do(t, e, storage.Op{Kind: storage.Put, Tube: "a", Delay: 1000, Body: body})
	}
	eventually(t, "the bodies to be dropped from memory", func() bool {
		do(t, e, storage.Op{Kind: storage.Put, Tube: "a", Delay: 1000, Body: make([]byte, 1<<10)})
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.machine.BodyBytes() < int64(len(body))
	})
	awaitTables(t, e)
	passThrough(t, e, 2)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.journal.held == nil {
		t.Error("the bodies were dropped, and two segments later no window is held")
	}
}

// TestWindowGoesOn: while many bytes are in memory, compared with a segment, a window goes on
// when the segment ends, but not for ever.
func TestWindowGoesOn(t *testing.T) {
	d := newDisk()
	d.segment, d.windowBytes = crashSegment, 16*crashSegment
	e := mustOpen(t, d.options(t))
	defer e.Close()
	held := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.journal.held != nil
	}
	do(t, e, storage.Op{Kind: storage.Put, Tube: "b", Delay: 100, Body: make([]byte, 8*crashSegment)})
	if passThrough(t, e, 1); held() {
		t.Error("the window ended with the first segment")
	}
	if passThrough(t, e, 17); !held() {
		t.Error("the window goes on after 18 segments")
	}
}

// TestPutAfterTheLastSegment: a job that is put into a window after the last segment of it has
// ended is not in the next window as well. That window would write the job again without its
// body, which is in the tables only by then, and would not remove it when it is deleted.
func TestPutAfterTheLastSegment(t *testing.T) {
	d := newDisk()
	d.segment, d.windowBytes = crashSegment, 16*crashSegment
	e := mustOpen(t, d.options(t))
	writeAll := func() {
		d.clock.advance(maxWindowAge.Until(0) + time.Second)
		if _, err := e.Tick(); err != nil {
			t.Fatal(err)
		}
		awaitTables(t, e)
	}
	put := func(body []byte) uint64 {
		return do(t, e, storage.Op{Kind: storage.Put, Tube: "b", Delay: 100_000, Body: body})[0].Answer.ID
	}
	put(make([]byte, 8*crashSegment)) // so that the window goes on
	passThrough(t, e, 1)
	kept, small, gone := put(bytes.Repeat([]byte("k"), 10<<10)), put([]byte("small")), put([]byte("gone"))
	writeAll()
	do(t, e, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: gone})
	put([]byte("last"))
	passThrough(t, e, 1)
	writeAll()
	bodyOf := func(id uint64) (string, bool) {
		ops := []storage.Op{{Kind: storage.Peek, ID: id}}
		storage.DoWait(e, ops)
		a := &ops[0].Answer
		return string(a.Body), !a.NotFound && a.Err == nil
	}
	for range 2 {
		if body, there := bodyOf(kept); !there || body != strings.Repeat("k", 10<<10) {
			t.Errorf("of the body of 10 KiB %d bytes are left", len(body))
		}
		if body, there := bodyOf(small); !there || body != "small" {
			t.Errorf("the small body has become %q", body)
		}
		if _, there := bodyOf(gone); there {
			t.Error("a deleted job is back")
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = mustOpen(t, d.options(t))
	}
	e.Close()
}
