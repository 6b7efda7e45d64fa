package httpapi

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	strict "github.com/go-json-experiment/json"

	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
)

// harness is an API on a memory engine, served on a free port.
type harness struct {
	t      testing.TB
	queue  *queue.Queue
	api    *API
	server *httpserve.Server
	addr   string
	client *http.Client
}

func start(t testing.TB, config Config) *harness {
	t.Helper()
	return startOn(t, embedded.NewMemory(), config)
}

// startOn is start with a given engine.
func startOn(t testing.TB, store storage.Store, config Config) *harness {
	t.Helper()
	return startWith(t, store, config, queue.Config{MaxJobSize: 1000, Version: "test"})
}

// startWith is startOn with a given configuration of the queue.
func startWith(t testing.TB, store storage.Store, config Config, of queue.Config) *harness {
	t.Helper()
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	a := &harness{t: t, queue: queue.New(store, of), client: &http.Client{Transport: new(http.Transport)}}
	a.api = New(a.queue, config)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a.addr = l.Addr().String()
	a.server = httpserve.New(a.api, httpserve.Config{})
	go a.server.Serve(l)
	t.Cleanup(func() {
		a.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := a.server.Shutdown(ctx); err != nil {
			t.Errorf("ending: %v", err)
		}
		if err := a.queue.Close(ctx); err != nil {
			t.Errorf("closing: %v", err)
		}
		store.Close()
	})
	return a
}

// answer is an HTTP answer.
type answer struct {
	status int
	header http.Header
	body   string
}

// call makes a request. The body is JSON unless headers, in the form "Name: value", say otherwise. A header
// without a value is removed.
func (a *harness) call(method, path, body string, headers ...string) answer {
	a.t.Helper()
	return a.callWith(context.Background(), method, path, body, headers...)
}

func (a *harness) callWith(ctx context.Context, method, path, body string, headers ...string) answer {
	a.t.Helper()
	got, err := a.try(ctx, method, path, body, headers...)
	if err != nil {
		a.t.Fatal(err)
	}
	return got
}

func (a *harness) try(ctx context.Context, method, path, body string, headers ...string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+a.addr+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", jsonType)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if r.Header.Set(name, value); value == "" {
			r.Header.Del(name)
		}
	}
	reply, err := a.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	return answer{reply.StatusCode, reply.Header, string(bytes.TrimSpace(text))}, err
}

// want is call with the expected status.
func (a *harness) want(status int, method, path, body string, headers ...string) answer {
	a.t.Helper()
	got := a.call(method, path, body, headers...)
	if got.status != status {
		a.t.Fatalf("%s %s %s: status %d, want %d: %s", method, path, body, got.status, status, got.body)
	}
	return got
}

// decode decodes the JSON body of an answer.
func decode[T any](t testing.TB, from answer) (v T) {
	t.Helper()
	if err := strict.Unmarshal([]byte(from.body), &v, strict.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("%s: %v", from.body, err)
	}
	return v
}

// reserve reserves jobs. It returns nil if there are none.
func (a *harness) reserve(query string) []leasedJob {
	a.t.Helper()
	got := a.call("POST", "/v1/reserve?"+query, "")
	if got.status == http.StatusNoContent {
		return nil
	}
	if got.status != http.StatusOK {
		a.t.Fatalf("reserve %s: %d %s", query, got.status, got.body)
	}
	return decode[[]leasedJob](a.t, got)
}

// awaitWaiting waits until n reserves are waiting.
func (a *harness) awaitWaiting(n int64) {
	a.t.Helper()
	for limit := time.Now().Add(time.Minute); a.queue.Waiters() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			a.t.Fatalf("%d reserves wait, not %d", a.queue.Waiters(), n)
		}
	}
}

// must returns a function that returns v and fails the test if err is not nil.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
