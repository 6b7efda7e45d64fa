package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"redstalk/server/queue"
	"redstalk/tube"
	"redstalk/tube/field"
)

// TestDelivered: a job is sent with its metadata, and is deleted.
func TestDelivered(t *testing.T) {
	t.Parallel()
	var got calls
	s := receiver(t, func(_ http.ResponseWriter, r *http.Request) { got.record(r) })
	w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
	defer w.end()
	first := w.put("t", "{\"a\": 1}")
	w.push("t", tube.Policy{Push: tube.Push{URL: s.URL + "/hook?a=b"}})
	w.until("the first call", func() bool { return w.job(first).State == tube.Gone })
	second := w.put("t", "")
	w.until("the second call", func() bool { return w.job(second).State == tube.Gone })
	all := got.all()
	if len(all) != 2 || all[0].body != "{\"a\": 1}" || all[1].body != "" {
		t.Fatalf("%+v", all)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Webhook-Id": "1-1", "Redstalk-Job": "1", "Redstalk-Tube": "t",
		"Redstalk-Delivery": "1", "Redstalk-Failures": "0", "Redstalk-Priority": "77", "User-Agent": "redstalk", "Content-Length": "8",
	} {
		if h := all[0].header.Get(name); h != want {
			t.Errorf("%s: %q, want %q", name, h, want)
		}
	}
}

// TestNotes: the trace and meta of a job are headers, and what an answer says is the reason of the
// failure.
func TestNotes(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var got calls
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		got.record(r)
		w.WriteHeader(http.StatusGone)
		w.Write([]byte("no such\r\nuser\xff" + strings.Repeat("é", 600)))
	})
	w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
	defer w.end()
	put, err := w.PutTagged(t.Context(), queue.NewJob{Tube: "t", TTR: 60}, &tube.Tags{Group: "Ann & Co", Trace: trace, Meta: []tube.Meta{{Name: "user-id", Value: "a\nb"}},
		Occurrence: &tube.Occurrence{Schedule: "nightly", Nominal: tube.Instant(1767225600123 * time.Millisecond)}})
	if err != nil {
		t.Fatal(err)
	}
	w.push("t", tube.Policy{Push: tube.Push{URL: s.URL}})
	w.until("the job to be parked", func() bool { return w.job(put.ID).State == tube.Buried })
	h := got.all()[0].header
	if h.Get("traceparent") != trace || h.Get("Redstalk-Meta-User-Id") != "a b" || h.Get("Redstalk-Group") != "Ann & Co" {
		t.Errorf("%v", h)
	}
	if h.Get("Redstalk-Schedule") != "nightly" || h.Get("Redstalk-Nominal-Ms") != "1767225600123" {
		t.Errorf("%v", h)
	}
	n := w.job(put.ID).Metadata.AllNotes()
	if !strings.HasPrefix(n.Reason, "no such \nuseré") || len(n.Reason) > tube.MaxReason || !utf8.ValidString(n.Reason) || len(n.Reason) < 500 {
		t.Errorf("the reason is %q", n.Reason)
	}
}

// TestResults: what a target answers is the result of a job whose record is kept, unless it is too long.
func TestResults(t *testing.T) {
	t.Parallel()
	s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.Header.Get("Redstalk-Meta-N"))
		w.Write([]byte(strings.Repeat("r", n)))
	})
	w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
	defer w.end()
	w.push("t", tube.Policy{Push: tube.Push{URL: s.URL}})
	for n, want := range map[int]int{0: 0, 2: 2, tube.MaxResult: tube.MaxResult, tube.MaxResult + 1: 0, 1 << 20: 0} {
		tags := &tube.Tags{Meta: []tube.Meta{{Name: "n", Value: strconv.Itoa(n)}}, Rules: tube.Rules{Keep: field.LifetimeOf(time.Hour)}}
		put, err := w.PutTagged(t.Context(), queue.NewJob{Tube: "t", TTR: 60}, tags)
		if err != nil {
			t.Fatal(err)
		}
		e, err := w.WaitEnd(t.Context(), put.ID, time.Minute)
		if err != nil || e.How != tube.Done || len(e.Result) != want {
			t.Errorf("an answer of %d bytes: %v, %v", n, e, err)
		}
	}
}

// TestReasonWithoutBody: without a body, the error is the reason.
func TestReasonWithoutBody(t *testing.T) {
	t.Parallel()
	s := receiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
	defer w.end()
	id := w.put("t", "")
	w.push("t", tube.Policy{Push: tube.Push{URL: s.URL}})
	w.until("a failure", func() bool { return w.job(id).Counters[tube.Releases] > 0 })
	if n := w.job(id).Metadata.AllNotes(); !strings.Contains(n.Reason, "status 418") {
		t.Errorf("the reason is %q", n.Reason)
	}
}

// TestContentType: a body is JSON if it is a whole object or array, and not too long to be
// checked.
func TestContentType(t *testing.T) {
	t.Parallel()
	long := `{"a": "` + strings.Repeat("x", maxJSON) + `"}`
	for body, isJSON := range map[string]bool{
		`{"a": 1}`: true, `[1, 2]`: true, " \r\n\t[]": true, `{`: false, `[1,]`: false, `"text"`: false, `7`: false, ``: false, ` `: false, long: false,
	} {
		want := map[bool]string{true: "application/json", false: "application/octet-stream"}[isJSON]
		if got := contentType([]byte(body)); got != want {
			t.Errorf("%.20q is %s, want %s", body, got, want)
		}
	}
}

// TestBackoff: without a retry list the waits double, up to an hour.
func TestBackoff(t *testing.T) {
	t.Parallel()
	for failures, want := range map[uint32]time.Duration{
		0: time.Second, 1: 2 * time.Second, 11: 2048 * time.Second, 12: time.Hour, 13: time.Hour, 40: time.Hour, 1 << 31: time.Hour,
	} {
		if got := backoff(failures); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
}
