package webhook

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"redstalk/tube"
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
