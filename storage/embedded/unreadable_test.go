package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"syscall"
	"testing"

	"redstalk/storage"
	"redstalk/tube"
)

// damaged returns a copy of the shared directory in which some bodies of tube a cannot be read.
func damaged(t *testing.T, log *slog.Logger) (o Options, fs *memFS) {
	t.Helper()
	p := sharedCleanDir(t)
	for _, name := range p.files(t, "jobs/tables", "", ".sst") {
		fs := p.copied()
		flip(t, fs, name, 0)
		o := (&disk{fs: fs, clock: p.clock}).options(t)
		o.Log = log
		e, err := Open(o)
		if err != nil {
			continue
		}
		n := p.missed(t, e, path.Base(name))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return o, fs
		}
	}
	t.Fatal("no damage makes only bodies unreadable")
	return o, nil
}

func countUnreadable(t *testing.T, e *Engine) int {
	t.Helper()
	_, unreadable := readJobs(t, e)
	return len(unreadable)
}

// TestUnreadableIsSetAside: a reserve skips jobs whose bodies cannot be read. They are buried,
// which survives a restart, and nothing is counted.
func TestUnreadableIsSetAside(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	o, _ := damaged(t, slog.New(slog.DiscardHandler))
	o.Log = slog.New(slog.NewTextHandler(&logged, nil))
	e := mustOpen(t, o)
	do(t, e, storage.Op{Kind: storage.Pause, Tube: "a"})
	broken := countUnreadable(t, e)
	total := statsOf(t, e, "a").Ready
	got := uint64(0)
	for ; got < 2*total; got++ {
		ops := []storage.Op{{Kind: storage.Take, Holder: 1, Tubes: []string{"a"}}}
		storage.DoWait(e, ops)
		if ops[0].Answer.Err != nil {
			t.Fatalf("reserve %d: %v", got, ops[0].Answer.Err)
		}
		if ops[0].Answer.NotFound {
			break
		}
		if len(ops[0].Answer.Body) == 0 {
			t.Errorf("job %d comes without its body", ops[0].Answer.ID)
		}
	}
	if got != total-uint64(broken) || broken == 0 {
		t.Errorf("%d of %d jobs came, and %d cannot be read", got, total, broken)
	}
	if !bytes.Contains(logged.Bytes(), []byte("job=")) || !bytes.Contains(logged.Bytes(), []byte("file 0")) {
		t.Errorf("the log says: %s", logged.Bytes())
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = mustOpen(t, o)
	defer e.Close()
	if s := statsOf(t, e, "a"); s.Buried != uint64(broken) {
		t.Errorf("after a restart %d jobs are buried, want %d", s.Buried, broken)
	}
	kicked := do(t, e, storage.Op{Kind: storage.Kick, Tube: "a", MaxJobs: 1000})[0].Answer.Count
	if s := statsOf(t, e, "a"); kicked != broken || s.Buried != 0 {
		t.Errorf("%d jobs kicked, want %d", kicked, broken)
	}
}

// TestUnreadableWithReserveJob: reserve-job of such a job fails and buries it. peek fails and
// leaves it as it is.
func TestUnreadableWithReserveJob(t *testing.T) {
	t.Parallel()
	o, _ := damaged(t, slog.New(slog.DiscardHandler))
	e := mustOpen(t, o)
	defer e.Close()
	_, unreadable := readJobs(t, e)
	for i, op := range []storage.Op{
		{Kind: storage.Peek, ID: unreadable[0]},
		{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: unreadable[0]},
		{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: unreadable[0]},
	} {
		ops := []storage.Op{op}
		storage.DoWait(e, ops)
		stats := do(t, e, storage.Op{Kind: storage.JobStats, ID: unreadable[0]})[0].Answer.Job
		want, reason := tube.Buried, damagedReason
		if i == 0 {
			want, reason = tube.Ready, ""
		}
		if !errors.Is(ops[0].Answer.Err, storage.ErrUnavailable) || stats.State != want || stats.Metadata.AllNotes().Reason != reason || stats.Counters[tube.Buries] != 0 {
			t.Errorf("operation %d: %v; then the job is %+v", i, ops[0].Answer.Err, stats)
		}
	}
}

// TestReadErrorThatPasses: while no body can be read, whatever the error, the jobs stay where they
// are and nothing is counted, so a job that may be delivered once comes after that.
func TestReadErrorThatPasses(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{syscall.EIO, syscall.EMFILE, syscall.ENOMEM, errors.New("unknown")} {
		d := newDisk()
		o := d.options(t)
		fs := newHookFS(d.fs)
		o.fs, o.KeepBodies = fs, 1
		e := mustOpen(t, o)
		do(t, e, storage.Op{Kind: storage.SetPolicy, Tube: "a", Args: &storage.Args{Policy: &tube.Policy{Rules: tube.Rules{Max: 1}}}})
		for i := range 3 {
			do(t, e, storage.Op{Kind: storage.Put, Tube: "a", TTR: 9, Body: []byte(fmt.Sprintf("%01000d", i))})
		}
		fillSegment(t, e)
		eventually(t, "the jobs to be in the tables", func() bool { oldest, current := segments(e); return oldest == current })
		do(t, e, storage.Op{Kind: storage.Move, Move: tube.Seize, Holder: 1, ID: 3}, storage.Op{Kind: storage.Move, Move: tube.Bury, Holder: 1, ID: 3})
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = mustOpen(t, o)
		fs.set(failReads(cause))
		for _, op := range []storage.Op{
			{Kind: storage.Take, Holder: 1, Tubes: []string{"a"}},
			{Kind: storage.Take, Holder: tube.LeaseHolder, Tubes: []string{"a"}},
			{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: 3},
			{Kind: storage.MoveJobs, Tube: "a", State: tube.Ready, MaxJobs: 2, Args: &storage.Args{To: "b"}},
		} {
			ops := []storage.Op{op}
			if storage.DoWait(e, ops); !errors.Is(ops[0].Answer.Err, storage.ErrUnavailable) {
				t.Errorf("%v, %v: %+v", cause, op.Kind, ops[0].Answer)
			}
			if s := statsOf(t, e, "a"); s.Buried != 1 || s.Ready != 2 {
				t.Errorf("%v, %v: %d jobs buried and %d ready, want 1 and 2", cause, op.Kind, s.Buried, s.Ready)
			}
		}
		fs.set(nil)
		for range 2 {
			if got := do(t, e, storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{"a"}}); len(got[0].Answer.Body) != 1000 {
				t.Errorf("%v: after it the body has %d bytes", cause, len(got[0].Answer.Body))
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
