package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/tools/conformance/busy"
)

// TestRequestsWaitForTheStore: a request at the start waits for the store, but not for long.
func TestRequestsWaitForTheStore(t *testing.T) {
	t.Parallel()
	for opens, want := range map[time.Duration]int{0: 200, 4 * time.Second: 200, time.Minute: 503} {
		synctest.Test(t, func(t *testing.T) {
			l := newLateHandler()
			time.AfterFunc(opens, func() {
				l.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "open") }))
			})
			began, w := time.Now(), httptest.NewRecorder()
			l.ServeHTTP(w, httptest.NewRequest("GET", "/v1/tubes", nil))
			if w.Code != want || time.Since(began) != min(opens, loadingWait) || (w.Header().Get("Retry-After") != "") != (want == 503) {
				t.Errorf("opens after %v: %d %v after %v", opens, w.Code, w.Header(), time.Since(began))
			}
		})
	}
}

// TestEndsWithSilentUpstream: an old server that does not answer delays the end by the grace period
// only.
func TestEndsWithSilentUpstream(t *testing.T) {
	t.Parallel()
	silent := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	p, _ := serve(t, "-p0", "--upstream", silent.Addr().String(), "--grace", "100ms")
	conn := must(silent.Accept())(t)
	defer conn.Close()                  // not before: without a reference to it, the collector closes it
	must(conn.Read(make([]byte, 1)))(t) // it waits for an answer now
	p.signal(t, syscall.SIGTERM)
	began := time.Now()
	if p.code(t); p.Cmd.ProcessState.ExitCode() != 0 || time.Since(began) > busy.Times(10*time.Second) || !strings.Contains(p.stderr.String(), "has not answered by the end of the grace period") {
		t.Errorf("after %v: %s", time.Since(began), p.stderr)
	}
}
