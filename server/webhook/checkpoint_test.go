package webhook

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"redstalk/tube"
)

// TestCheckpoints: a call has the checkpoint of the answer before, if it is not too long, and always its size. What is no checkpoint
// changes nothing, and is named.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	encoded := func(n int) string { return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("c", n))) }
	steps := []struct {
		size, header string // of the call
		answer       []string
		reason       string
	}{
		{"", "", []string{encoded(1)}, "oh"},
		{"1", encoded(1), []string{encoded(4096)}, "oh"},
		{"4096", encoded(4096), []string{encoded(4097)}, "oh"},
		{"4097", "", []string{encoded(tube.MaxCheckpoint)}, "oh"},
		{"65536", "", nil, "oh"},
		{"65536", "", []string{"c29tZXRoaW5n=%"}, "the checkpoint of the answer is not saved: Redstalk-Checkpoint is not base64; oh"},
		{"65536", "", []string{encoded(tube.MaxCheckpoint + 3)}, "the checkpoint of the answer is not saved: it has more than 65536 bytes; oh"},
		{"65536", "", []string{""}, "oh"},
		{"", "", []string{encoded(3)}, "oh"},
	}
	var received calls
	at := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		received.record(r)
		if n := len(received.all()); n <= len(steps) {
			refuseWith(w, steps[n-1].answer, n == len(steps))
			return
		}
		w.Header()[checkpointHeader] = []string{encoded(9)} // of a job that is done
	})
	w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
	defer w.end()
	rules := tube.Rules{Retry: make([]time.Duration, 20)}
	w.push("t", tube.Policy{Rules: rules, Push: tube.Push{URL: at.URL}})
	id := w.put("t", "x")
	w.until("it is parked", func() bool { return w.job(id).State == tube.Buried })
	for i, c := range received.all() {
		if size, header := c.header.Get(checkpointBytesHeader), c.header.Get(checkpointHeader); size != steps[i].size || header != steps[i].header {
			t.Errorf("call %d has a checkpoint of %q bytes, %.20q; want %q, %.20q", i+1, size, header, steps[i].size, steps[i].header)
		}
	}
	for i, a := range w.job(id).Metadata.AllNotes().Attempts { // the newest first
		if want := steps[len(steps)-1-i].reason; a.Reason != want {
			t.Errorf("call %d has failed because of %q, want %q", len(steps)-i, a.Reason, want)
		}
	}
	if log := fmt.Sprint(w.log.all()); !strings.Contains(log, "a push has failed") {
		t.Errorf("the log says %s", log)
	}
	data, err := w.Checkpoint(context.Background(), id)
	if err != nil || string(data) != "ccc" {
		t.Errorf("parked, its checkpoint is %q (%v)", data, err)
	}
	if err := w.KickJob(context.Background(), id, true); err != nil {
		t.Fatal(err)
	}
	w.until("it is done", func() bool { return w.job(id).State == tube.Gone })
}

// refuseWith answers with a checkpoint, unless that is nil, that a job has failed, or with last that it is to be parked.
func refuseWith(w http.ResponseWriter, checkpoint []string, last bool) {
	if checkpoint != nil {
		w.Header()[checkpointHeader] = checkpoint
	}
	status := http.StatusInternalServerError
	if last {
		status = http.StatusGone
	}
	http.Error(w, "oh", status)
}

// TestCheckpointOfAnotherLease: what answers a call whose lease is over is not saved.
func TestCheckpointOfAnotherLease(t *testing.T) {
	t.Parallel()
	w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
	defer w.end()
	id := w.put("t", "x")
	job, err := w.ReserveLease(context.Background(), []string{"t"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for size, lease := range []uint64{job.Lease + 1, job.Lease} {
		outcome := outcomeOf(&http.Response{StatusCode: 500, Body: http.NoBody}, time.Now())
		answer := &http.Response{Header: http.Header{checkpointHeader: {"eA=="}}}
		w.saveCheckpoint(context.Background(), answer, &Job{ID: id, Lease: lease, Deadline: time.Now().Add(time.Minute)}, &outcome)
		if refused := strings.Contains(outcome.Err.Error(), "not saved"); refused != (size == 0) || refused && w.job(id).Metadata.CheckpointSize() > 0 {
			t.Errorf("the lease %d saves: %v; the job is %+v", lease, outcome.Err, w.job(id).Metadata)
		}
	}
}

// TestLargestCheckpoint: a checkpoint in a header has no byte more than one of any other worker, though base64 has the same length for some of
// these.
func TestLargestCheckpoint(t *testing.T) {
	t.Parallel()
	for more, want := range []bool{true, false, false, false} {
		data, err := checkpointIn(base64.StdEncoding.EncodeToString(make([]byte, tube.MaxCheckpoint+more)))
		if got := err == nil; got != want {
			t.Errorf("a checkpoint of %d bytes is accepted: %t (%d bytes, %v)", tube.MaxCheckpoint+more, got, len(data), err)
		}
	}
}
