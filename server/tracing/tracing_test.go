package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

const (
	aTrace   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	unwanted = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00" // not sampled
)

// harness is a queue with a tracer on a memory engine inside a synctest bubble, with virtual time.
type harness struct {
	*testing.T
	*queue.Queue
	spans *tracetest.InMemoryExporter
	store *embedded.Engine
}

func withHarness(t *testing.T, test func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		tracer := newTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), slog.New(slog.DiscardHandler))
		store := embedded.NewMemory()
		h := &harness{T: t, spans: spans, store: store, Queue: queue.New(store, queue.Config{Through: tracer.Store, Log: slog.New(slog.DiscardHandler)})}
		test(h)
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := tracer.Close(context.Background()); err != nil {
			t.Error(err)
		}
		store.Close()
	})
}

// must carries out an operation.
func (h *harness) must(op storage.Op) storage.Answer {
	h.Helper()
	a, err := h.Do(context.Background(), op)
	if err != nil || a[0].Err != nil || a[0].NotFound {
		h.Fatalf("%v: %+v, %v", op.Kind, a, err)
	}
	return a[0]
}

func (h *harness) put(name string, delay uint32, tags tube.Tags) uint64 {
	h.Helper()
	return h.must(storage.Op{Kind: storage.Put, Tube: name, TTR: 10, Delay: delay, Body: []byte("body"), Args: &storage.Args{Tags: &tags}}).ID
}

func (h *harness) take(holder tube.Holder, name string) storage.Answer {
	h.Helper()
	return h.must(storage.Op{Kind: storage.Take, Holder: holder, Tubes: []string{name}})
}

func (h *harness) move(m tube.Move, holder tube.Holder, id uint64, reason string) {
	h.Helper()
	h.must(storage.Op{Kind: storage.Move, Move: m, Holder: holder, ID: id, Args: &storage.Args{Reason: reason}})
}

// want checks the spans since the last call. Each is named with its duration, outcome and error.
func (h *harness) want(want ...string) {
	h.Helper()
	var got []string
	for _, s := range h.spans.GetSpans() {
		if s.Parent.TraceID().String() != aTrace[3:35] || s.Parent.SpanID().String() != aTrace[36:52] || s.SpanContext.TraceID() != s.Parent.TraceID() {
			h.Errorf("%s: the parent is %v", s.Name, s.Parent)
		}
		text := fmt.Sprintf("%s %v", s.Name, s.EndTime.Sub(s.StartTime))
		for _, a := range s.Attributes {
			if a.Key == "redstalk.outcome" {
				text += " " + a.Value.AsString()
			}
		}
		if s.Status.Code == codes.Error {
			text += ": " + s.Status.Description
		}
		got = append(got, text)
	}
	if h.spans.Reset(); !slices.Equal(got, want) {
		h.Errorf("the spans are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSpans: a job has spans of its put, of each wait that is known, and of each run.
func TestSpans(t *testing.T) {
	withHarness(t, func(h *harness) {
		id := h.put("mails", 3, tube.Tags{Trace: aTrace})
		h.want("put mails 0s inserted")
		time.Sleep(5 * time.Second)
		h.take(1, "mails")
		h.want("wait mails 5s")
		time.Sleep(2 * time.Second)
		h.move(tube.Touch, 1, id, "")
		time.Sleep(9 * time.Second)
		h.move(tube.Release, 1, id, "no such user")
		h.want("run mails 11s released: no such user")
		time.Sleep(time.Second)
		h.take(1, "mails")
		h.want("wait mails 1s")
		h.move(tube.Delete, 1, id, "")
		h.want("run mails 0s deleted")
	})
}

// TestEnds: each end of a reservation ends the span of its run.
func TestEnds(t *testing.T) {
	withHarness(t, func(h *harness) {
		id := h.put("a", 0, tube.Tags{Trace: aTrace})
		h.spans.Reset()
		run := func(end func()) {
			h.must(storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id})
			h.spans.Reset()
			end()
		}
		run(func() {
			h.move(tube.SaveCheckpoint, 1, id, "") // it ends none
			h.move(tube.Bury, 1, id, "")
		})
		h.want("run a 0s buried: buried")
		run(func() { h.move(tube.Snooze, 1, id, "") })
		h.want("run a 0s snoozed")
		run(func() { h.must(storage.Op{Kind: storage.ReleaseAll, Holder: 1}) })
		h.want("run a 0s connection closed: connection closed")
		run(func() { time.Sleep(15 * time.Second) })
		h.want("run a 10s ttr: ttr")
		a := h.take(tube.LeaseHolder, "a")
		h.spans.Reset()
		h.must(storage.Op{Kind: storage.Move, Move: tube.Release, Holder: tube.LeaseHolder, ID: id, Args: &storage.Args{Lease: a.Result.Lease}})
		h.want("run a 0s released: released")
		h.take(1, "a")
		time.Sleep(10*time.Second + time.Millisecond)
		h.spans.Reset()
		h.take(1, "a") // before anybody has examined the first run
		h.want("wait a 1ms", "run a 10s ttr: ttr")
	})
}

// TestDeadLetter: a job whose last TTR runs out gets another id, and its run has a span.
func TestDeadLetter(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.put("a", 0, tube.Tags{Trace: aTrace, Rules: tube.Rules{Max: 1, Dead: "morgue"}})
		h.take(1, "a")
		h.spans.Reset()
		time.Sleep(15 * time.Second)
		h.want("run a 10s ttr: ttr")
		h.take(1, "morgue")
		h.want("wait morgue 5s")
	})
}

// TestRemoved: a run has no span if somebody else has removed the job, as its worker learns; in particular its TTR did not run out.
func TestRemoved(t *testing.T) {
	withHarness(t, func(h *harness) {
		id := h.put("a", 0, tube.Tags{Trace: aTrace, Key: "k"})
		h.take(1, "a")
		h.spans.Reset()
		h.must(storage.Op{Kind: storage.DeleteKey, Tube: "a", Args: &storage.Args{Key: "k"}})
		if a, err := h.Do(context.Background(), storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: id}); err != nil || !a[0].NotFound {
			t.Fatal(a, err)
		}
		time.Sleep(time.Minute)
		h.want()
	})
}

// TestClockAhead: a job that failed in the future, by the clock of the program that has copied it, has not waited yet.
func TestClockAhead(t *testing.T) {
	withHarness(t, func(h *harness) {
		ahead := tube.Instant(time.Now().Add(time.Hour).UnixNano())
		h.put("a", 0, tube.Tags{Trace: aTrace, Reason: "down", FailedAt: ahead})
		h.spans.Reset()
		h.take(1, "a")
		h.want("wait a 0s")
	})
}

// TestUnknownFlags: flags of a later version of traceparent do not matter.
func TestUnknownFlags(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.put("a", 0, tube.Tags{Trace: strings.TrimSuffix(aTrace, "01") + "ff"})
		h.want("put a 0s inserted")
	})
}

// TestFinishedElsewhere: what another server does with a lease is not this server's to say.
func TestFinishedElsewhere(t *testing.T) {
	withHarness(t, func(h *harness) {
		id := h.put("a", 0, tube.Tags{Trace: aTrace})
		lease := h.take(tube.LeaseHolder, "a").Result.Lease
		h.spans.Reset()
		other := func(m tube.Move) {
			ops := []storage.Op{{Kind: storage.Move, Move: m, Holder: tube.LeaseHolder, ID: id, Args: &storage.Args{Lease: lease}}}
			if storage.DoWait(h.store, ops); ops[0].Answer.NotFound {
				t.Fatal(m, "was not possible")
			}
		}
		for range 5 {
			time.Sleep(8 * time.Second)
			other(tube.Touch)
		}
		h.want()
		other(tube.Release)
		lease = h.take(tube.LeaseHolder, "a").Result.Lease
		h.want()
		other(tube.Delete)
		time.Sleep(time.Minute)
		h.want()
	})
}

// TestLateStore: a store that is late with TTRs is not asked about the same runs again and again.
func TestLateStore(t *testing.T) {
	tracer, now := new(Tracer), time.Now()
	r := &run{holder: 1, job: &tube.JobStats{ID: 1}, deadline: now.Add(-time.Minute)}
	tracer.runs.begin(r)
	tracer.examined(r, &tube.JobStats{ID: 1, State: tube.Reserved, TimeLeft: -time.Minute}, now)
	if n := len(tracer.runs.overdue(now)); n != 0 {
		t.Error("a run that was examined is overdue at once")
	}
	if n := len(tracer.runs.overdue(now.Add(slack + time.Second))); n != 1 {
		t.Error("the run is not examined again later")
	}
}

// TestUnsampled: without a trace, or one that nobody samples, there are no spans.
func TestUnsampled(t *testing.T) {
	withHarness(t, func(h *harness) {
		for _, trace := range []string{"", unwanted} {
			id := h.put("a", 0, tube.Tags{Trace: trace, Key: "k"})
			h.take(1, "a")
			h.move(tube.Delete, 1, id, "")
			h.want()
		}
	})
}

// TestRefusedPut: a put that is no job says why.
func TestRefusedPut(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.put("a", 0, tube.Tags{Trace: aTrace, Key: "k"})
		h.put("a", 0, tube.Tags{Trace: aTrace, Key: "k"})
		h.want("put a 0s inserted", "put a 0s existing")
	})
}

// TestTooManyRuns: runs beyond the limit are not watched, and those that end make room.
func TestTooManyRuns(t *testing.T) {
	var rs runs
	add := func(h tube.Holder, id uint64) (full bool) {
		_, full = rs.begin(&run{holder: h, job: &tube.JobStats{ID: id}})
		return full
	}
	for i := range maxRuns {
		if add(tube.Holder(i%7), uint64(i)) {
			t.Fatal("full after", i)
		}
	}
	if !add(1, maxRuns) {
		t.Error("one more than the limit is watched")
	}
	if rs.end(1, 1) == nil || rs.end(1, 1) != nil {
		t.Error("a run does not end once")
	}
	if add(1, maxRuns) || !add(2, maxRuns+1) {
		t.Error("there is no room for exactly one")
	}
	if n := len(rs.endAll(3)); n != maxRuns/7+1 && n != maxRuns/7 || rs.count != maxRuns-n {
		t.Errorf("%d of holder 3, and %d are left", n, rs.count)
	}
}

func TestCheckURL(t *testing.T) {
	for _, good := range []string{"http://127.0.0.1:4318", "https://collector.example/otel/", "http://[::1]:4318/v1/traces"} {
		if err := CheckURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:4318", "grpc://a:1", "http://", "http://u:hidden@a:1", "http://a:1/?hidden=1", "http://a:1/%zz hidden"} {
		if err := CheckURL(bad); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
