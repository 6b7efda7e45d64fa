package main

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/server/httpapi"
	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/storage/embedded"
)

// TestHTTPMode loads an HTTP API, once that is ready, and leaves nothing behind.
func TestHTTPMode(t *testing.T) {
	t.Parallel()
	store := embedded.NewMemory()
	q := queue.New(store, queue.Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api, loading := httpapi.New(q, httpapi.Config{}), int64(3)
	server := httpserve.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if atomic.AddInt64(&loading, -1) >= 0 { // as while a store is being loaded
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		api.ServeHTTP(w, r)
	}), httpserve.Config{})
	go server.Serve(l)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		server.Shutdown(ctx)
		q.Close(ctx)
		store.Close()
	})
	for name, change := range map[string]func(*load){
		"one":      func(*load) {},
		"batches":  func(l *load) { l.Pipeline, l.Tubes = 30, 2 },
		"blocking": func(l *load) { l.Blocking = true },
	} {
		load := baseLoad()
		load.Mode, load.Conns, load.Duration = modeHTTP, 7, 200*time.Millisecond
		change(&load)
		res, err := runLoad(context.Background(), target{addr: l.Addr().String()}, load, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := res.verdict(); err != nil || res.Ops == 0 || res.Jobs.Put != res.Jobs.Reserved {
			t.Errorf("%s: %v, %+v", name, err, res)
		}
	}
	if s, err := q.Stats(context.Background()); err != nil || s.Ready+s.Reserved != 0 {
		t.Errorf("%+v is left: %v", s, err)
	}
}
