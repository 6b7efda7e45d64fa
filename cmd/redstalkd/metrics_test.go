package main

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tools/redistest"
)

// awaitReady waits for this response of /readyz. Failed requests are repeated.
func awaitReady(t *testing.T, url string, status int, reason string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		reply, err := http.Get(url + "/readyz")
		if err != nil {
			continue
		}
		var text bytes.Buffer
		text.ReadFrom(reply.Body)
		reply.Body.Close()
		if got = text.String(); reply.StatusCode == status && strings.TrimSpace(got) == reason {
			return
		}
	}
	t.Fatalf("/readyz says %q and not %q", got, reason)
}

// awaitMetric waits until /metrics has a line.
func awaitMetric(t *testing.T, url, line string) {
	t.Helper()
	text := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if _, text = ask(t, "GET", url+"/metrics", ""); strings.Contains(text, "\n"+line+"\n") {
			return
		}
	}
	t.Fatalf("no %s in\n%s", line, text)
}

// TestReadyWithRedis: two instances on one Redis report that they are not ready while it is stopped
// or frozen, and are ready again when it is back. Their metrics are available all the time.
// Each counts the commands of its own clients; both show the same jobs.
func TestReadyWithRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	one, url := serveHTTP(t, "--store", redis.URL(), "--store-timeout", "1s")
	_, other := serveHTTP(t, "--store", redis.URL(), "--store-timeout", "1s")
	awaitReady(t, url, 200, "ready")
	c := dial(t, one.serving(t))
	c.ask("put 1 0 60 1\r\na\r\n", "INSERTED 1")
	c.ask("reserve\r\n", "RESERVED 1 1", "a")
	c.ask("delete 7\r\n", "NOT_FOUND")
	awaitMetric(t, url, `redstalk_tube_wait_seconds_count{tube="default"} 1`)
	awaitMetric(t, url, `redstalk_commands_total{command="delete",result="not_found"} 1`)
	awaitMetric(t, url, `redstalk_instances 2`)
	awaitMetric(t, url, `redstalk_held_keys 0`)
	awaitMetric(t, url, `redstalk_checkpoints 0`)
	awaitMetric(t, other, `redstalk_tube_jobs{tube="default",state="reserved"} 1`)
	if _, text := ask(t, "GET", other+"/metrics", ""); strings.Contains(text, "redstalk_tube_puts_total{") {
		t.Errorf("an instance counts the puts of another one:\n%s", text)
	}
	for _, fault := range []struct{ begin, end func() }{
		{redis.Kill, func() { check(t, redis.Restart()) }},
		{redis.Stop, redis.Continue},
	} {
		fault.begin()
		for _, tube := range []string{url, other} {
			awaitReady(t, tube, 503, "the store cannot be reached")
			awaitMetric(t, tube, "redstalk_store_up 0")
			if status, text := ask(t, "GET", tube+"/healthz", ""); status != 200 || text != "ok" {
				t.Errorf("%d %q", status, text)
			}
		}
		fault.end()
		awaitReady(t, url, 200, "ready")
		awaitReady(t, other, 200, "ready")
		awaitMetric(t, url, "redstalk_store_up 1")
	}
	one.signal(t, syscall.SIGUSR1)
	awaitReady(t, url, 503, "the instance drains")
	one.signal(t, syscall.SIGUSR2)
	awaitReady(t, url, 200, "ready")
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadyWhileLoading: the HTTP API reports that the store is being loaded, and serves when it
// is.
func TestReadyWhileLoading(t *testing.T) {
	t.Parallel()
	loaded := make(chan struct{})
	p := runInside(t, &Main{open: func(context.Context, engine) (storage.Store, error) {
		<-loaded
		return embedded.NewMemory(), nil
	}}, "-V", "-p0", "--http", "127.0.0.1:0", "--ready-lag", "1m", "--metrics-tubes", "0")
	url := "http://" + p.stderr.await(t, `msg=listening listener=http addr=(\S+)`)
	awaitReady(t, url, 503, "the store is being loaded")
	awaitMetric(t, url, "redstalk_ready 0")
	if status, text := ask(t, "GET", url+"/v1/tubes", ""); status != 503 || !strings.Contains(text, `"LOADING"`) {
		t.Errorf("%d %s", status, text)
	}
	close(loaded)
	awaitReady(t, url, 200, "ready")
	awaitMetric(t, url, `redstalk_tube_jobs{tube="all others",state="ready"} 0`)
	if status, text := ask(t, "GET", url+"/v1/tubes", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	p.stop()
	if code := receive(t, p.code); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.stderr)
	}
}

// TestEndsWhileLoading: a server that is stopped while it loads its store ends.
func TestEndsWhileLoading(t *testing.T) {
	t.Parallel()
	p := runInside(t, &Main{open: func(ctx context.Context, _ engine) (storage.Store, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}, "-V", "-p0", "--http", "127.0.0.1:0")
	awaitReady(t, "http://"+p.stderr.await(t, `msg=listening listener=http addr=(\S+)`), 503, "the store is being loaded")
	p.stop()
	if code := receive(t, p.code); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.stderr)
	}
}

// TestReadyIsOpen: when /readyz reports ready, every listener answers.
func TestReadyIsOpen(t *testing.T) {
	t.Parallel()
	for range 8 {
		p := start(t, command("-V", "-p0", "--store", "memory:", "--http", "127.0.0.1:0", "--gateway", "ruffianjiang=127.0.0.1:0"))
		url := "http://" + p.stderr.await(t, `msg=listening listener=http addr=(\S+)`)
		gateway := "http://" + p.stderr.await(t, `msg=listening listener=ruffianjiang addr=(\S+)`)
		for ready := false; !ready; { // without a pause, which would hide a gap
			reply, err := http.Get(url + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			reply.Body.Close()
			ready = reply.StatusCode == http.StatusOK
		}
		for _, at := range []string{url + "/v1/server", gateway + "/pop/t"} {
			if status, text := ask(t, "GET", at, ""); status != http.StatusOK {
				t.Errorf("%s: %d %s", at, status, text)
			}
		}
	}
}
