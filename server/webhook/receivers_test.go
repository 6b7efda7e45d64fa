package webhook

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/tube"
)

// hostileReceiver starts a receiver that reads a request and then leaves its connection to
// serve. It returns its URL and how often it was called.
func hostileReceiver(t *testing.T, serve func(net.Conn, int)) (url string, called *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	called = new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					io.Copy(io.Discard, req.Body)
					serve(c, int(called.Add(1)))
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/", called
}

// TestHostileReceivers: whatever a receiver does, jobs are neither lost nor delayed for
// long, and memory stays bounded.
func TestHostileReceivers(t *testing.T) {
	t.Parallel()
	gone, open := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(open) })
	elsewhere := receiver(t, func(http.ResponseWriter, *http.Request) { close(gone) })
	say := func(text string) func(net.Conn, int) {
		return func(c net.Conn, _ int) { io.WriteString(c, text) }
	}
	for name, c := range map[string]struct {
		serve  func(net.Conn, int)
		result Result
	}{
		"closes at once":       {func(c net.Conn, _ int) { c.Close() }, Broken},
		"closes in the middle": {func(c net.Conn, _ int) { io.WriteString(c, "HTTP/1.1 200 O"); c.Close() }, Broken},
		"never answers":        {func(net.Conn, int) { <-open }, TimedOut},
		"no end of its head":   {endless("HTTP/1.1 200 OK\r\n", "A: b\r\n"), Broken},
		"no HTTP":              {say("SSH-2.0-x\r\n\r\n"), Broken},
		"redirects":            {say("HTTP/1.1 307 Go\r\nLocation: " + elsewhere.URL + "\r\nContent-Length: 0\r\n\r\n"), Failed},
		"not modified":         {say("HTTP/1.1 304 x\r\n\r\n"), Failed},
		"another protocol":     {say("HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), Failed},
		"reset, no content":    {say("HTTP/1.1 205 x\r\nContent-Length: 0\r\n\r\n"), Delivered},
		"says too much of its length": {func(c net.Conn, _ int) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx")
			c.Close()
		}, Delivered},
		"says too little of it":        {say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxyz"), Delivered},
		"a length that is none":        {say("HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\nxyz"), Broken},
		"a broken body":                {say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), Delivered},
		"a body without end":           {endless("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 64<<10)), Delivered},
		"an error with such a body":    {endless("HTTP/1.1 500 Oh\r\n\r\n", strings.Repeat("x", 64<<10)), Failed},
		"a body that never comes":      {func(c net.Conn, _ int) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"); <-open }, Delivered},
		"hints without end":            {endless("", "HTTP/1.1 103 Early\r\n\r\n"), Broken},
		"a compressed bomb":            {say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"), Delivered},
		"an answer before the request": {say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"), Delivered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, called := hostileReceiver(t, c.serve)
			w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
			defer w.end()
			rules := tube.Rules{Retry: []time.Duration{time.Hour}}
			w.push("t", tube.Policy{Rules: rules, Push: tube.Push{URL: at, Timeout: 3 * time.Second}})
			id := w.put("t", "x")
			w.until("the call is over", func() bool { s := w.Dispatcher.Stats(); return len(s.Tubes) > 0 && s.Leased == 0 })
			stats, state := w.Dispatcher.Stats().Tubes[0], tube.Delayed
			if c.result == Delivered {
				state = tube.Gone
			}
			if stats.Calls[c.result] != 1 || w.job(id).State != state || called.Load() != 1 {
				t.Errorf("%+v after %d calls, the job is %v; want it %v; the log: %q", stats, called.Load(), w.job(id).State, c.result, w.log.all())
			}
		})
	}
	select {
	case <-gone:
		t.Error("a redirect was followed")
	default:
	}
}

// endless writes first, and then more repeatedly, up to a gigabyte.
func endless(first, more string) func(net.Conn, int) {
	return func(c net.Conn, _ int) {
		io.WriteString(c, first)
		for sent := 0; sent < 1<<30; sent += len(more) {
			if _, err := io.WriteString(c, more); err != nil {
				return
			}
		}
	}
}

// TestGigabyte: of a long body, no more is read than is needed to use the connection again,
// and what the kernel buffers.
func TestGigabyte(t *testing.T) {
	t.Parallel()
	sent := make(chan int, 1)
	at, _ := hostileReceiver(t, func(c net.Conn, _ int) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
		n, piece := 0, make([]byte, 64<<10)
		for err := error(nil); err == nil && n < 1<<30; n += len(piece) {
			_, err = c.Write(piece)
		}
		sent <- n
	})
	w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
	defer w.end()
	w.push("t", tube.Policy{Push: tube.Push{URL: at}})
	w.put("t", "x")
	select {
	case n := <-sent:
		if n > 64<<20 {
			t.Errorf("%d bytes were taken", n)
		}
	case <-time.After(waitTimeout):
		t.Error("the connection was not closed")
	}
}

// TestUnreliable: with a receiver that is slow, answers 500 now and then, and breaks
// connections, every job is acknowledged once, and none is lost.
func TestUnreliable(t *testing.T) {
	t.Parallel()
	const n = 500
	var mu sync.Mutex
	good, bad := make(map[string]int), 0
	at, _ := hostileReceiver(t, func(c net.Conn, call int) {
		switch {
		case call%7 == 0:
			io.WriteString(c, "H") // without a byte, on a used connection, the call would be repeated
			c.Close()
		case call%11 == 0:
			io.WriteString(c, "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n")
		case call%50 == 0:
			time.Sleep(50 * time.Millisecond)
			fallthrough
		default:
			io.WriteString(c, "HTTP/1.1 204 Yes\r\n\r\n")
			mu.Lock()
			good["all"]++
			mu.Unlock()
			return
		}
		mu.Lock()
		bad++
		mu.Unlock()
	})
	w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
	defer w.end()
	w.push("t", tube.Policy{Rules: tube.Rules{Retry: make([]time.Duration, 32)}, Push: tube.Push{URL: at}})
	for i := range n {
		w.put("t", fmt.Sprint(i))
	}
	w.until("all are gone", func() bool {
		s, err := w.Queue.Stats(context.Background())
		return err == nil && s.Ready+s.Reserved == 0
	})
	mu.Lock()
	defer mu.Unlock()
	s, _ := w.TubeStats(context.Background(), "t")
	stats := w.Dispatcher.Stats().Tubes[0]
	if good["all"] != n || s.Deletes != n || stats.Calls[Delivered] != n || stats.Calls[Failed]+stats.Calls[Broken] != uint64(bad) || stats.Late != 0 {
		t.Errorf("%d good answers, %d bad ones; %+v, %+v", good["all"], bad, s, stats)
	}
}

// TestTLS: HTTP/2 over TLS, with and without a private CA.
func TestTLS(t *testing.T) {
	t.Parallel()
	var got calls
	var proto atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		proto.Store(r.Proto)
		got.record(r)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	for _, cas := range []*x509.CertPool{pool, x509.NewCertPool()} {
		w := newHarness(t, Config{Allow: allow(t, "127.0.0.1"), CAs: cas})
		id := w.put("t", "x")
		w.push("t", tube.Policy{Push: tube.Push{URL: s.URL}})
		w.until("the call is over", func() bool { s := w.Dispatcher.Stats(); return len(s.Tubes) > 0 && s.Leased == 0 })
		if ok := w.job(id).State == tube.Gone; ok != (cas == pool) {
			t.Errorf("delivered: %v; %q", ok, w.log.all())
		}
		w.end()
	}
	if all := got.all(); len(all) != 1 || all[0].body != "x" || proto.Load() != "HTTP/2.0" {
		t.Errorf("%v, by %v", all, proto.Load())
	}
}

// TestManyTubes: a tube that pushes and has no job needs no goroutine, and little memory.
func TestManyTubes(t *testing.T) {
	t.Parallel()
	const n = 5_000
	var got calls
	s := receiver(t, func(_ http.ResponseWriter, r *http.Request) { got.record(r) })
	w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
	defer w.end()
	for i := range n {
		w.push(fmt.Sprint("tube-", i), tube.Policy{Push: tube.Push{URL: fmt.Sprint(s.URL, "/", i)}})
	}
	w.until("all push", func() bool { return w.Dispatcher.Stats().Pushing == n })
	var all []uint64
	for i := range 20 {
		all = append(all, w.put(fmt.Sprint("tube-", i*n/20), "x"))
	}
	w.until("the jobs are gone", func() bool {
		for _, id := range all {
			if w.job(id).State != tube.Gone {
				return false
			}
		}
		return true
	})
	if count := runtime.NumGoroutine(); count > n/10 {
		t.Errorf("%d goroutines", count)
	}
	for i := range n {
		if err := w.SetPolicy(context.Background(), fmt.Sprint("tube-", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	w.until("none pushes", func() bool { return w.Dispatcher.Stats().Pushing == 0 })
	if s, err := w.Queue.Stats(context.Background()); err != nil || s.Tubes != 1 || len(w.Dispatcher.Stats().Targets) != 0 {
		t.Errorf("what is left: %+v, %+v, %v", s, w.Dispatcher.Stats(), err)
	}
}

// TestProxy: with --push-proxy, requests go through the proxy, and not to what is not
// allowed.
func TestProxy(t *testing.T) {
	t.Parallel()
	proxy := receiver(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "example.org" || r.Method != http.MethodPost {
			rw.WriteHeader(http.StatusBadGateway)
		}
	})
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := newHarness(t, Config{Allow: allow(t, "example.org"), Proxy: true, proxyOf: http.ProxyURL(at)})
	defer w.end()
	w.push("t", tube.Policy{Push: tube.Push{URL: "http://example.org/a"}})
	id := w.put("t", "x")
	w.until("it is gone", func() bool { return w.job(id).State == tube.Gone })
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://10.0.0.1/", nil)
	if _, err := w.Do2(req); err == nil || resultOf(err) != Forbidden {
		t.Errorf("through the proxy: %v", err)
	}
}

// Do2 is Dispatcher.Do: the queue also has a Do.
func (w *harness) Do2(req *http.Request) (*http.Response, error) { return w.Dispatcher.Do(req) }

// TestStaleConnections: a call whose used connection is closed without a byte of an answer is
// made once more, on a new connection, and counts as one.
func TestStaleConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sound   func(call int, used bool) bool
		calls   int32 // of three jobs
		results [NumResults]uint64
	}{
		"closes used connections":   {func(_ int, used bool) bool { return !used }, 4, [NumResults]uint64{Delivered: 3}},
		"closes all but the first":  {func(call int, _ bool) bool { return call == 1 }, 4, [NumResults]uint64{Delivered: 1, Broken: 2}},
		"closes new ones otherwise": {func(call int, _ bool) bool { return call > 1 }, 3, [NumResults]uint64{Delivered: 2, Broken: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var used sync.Map
			at, called := hostileReceiver(t, func(conn net.Conn, call int) {
				_, again := used.LoadOrStore(conn, true)
				if !c.sound(call, again) {
					conn.Close()
					return
				}
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			})
			w := newHarness(t, Config{Allow: allow(t, "127.0.0.1")})
			defer w.end()
			w.push("t", tube.Policy{Rules: tube.Rules{Retry: []time.Duration{time.Hour}}, Push: tube.Push{URL: at, Concurrency: 1}})
			for n := range uint64(3) {
				w.put("t", "x")
				w.until("it was called", func() bool {
					s := w.Dispatcher.Stats()
					return s.Leased == 0 && len(s.Tubes) > 0 && s.Tubes[0].Calls[Delivered]+s.Tubes[0].Calls[Broken] == n+1
				})
			}
			if got := w.Dispatcher.Stats().Tubes[0].Calls; got != c.results || called.Load() != c.calls {
				t.Errorf("%d calls, %v; want %d, %v", called.Load(), got, c.calls, c.results)
			}
		})
	}
}

// TestResetRequests: a request that an HTTP/2 server ends alone is not repeated, since the
// server has seen it.
func TestResetRequests(t *testing.T) {
	t.Parallel()
	var called atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if called.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	cas := x509.NewCertPool()
	cas.AddCert(s.Certificate())
	w := newHarness(t, Config{Allow: allow(t, "127.0.0.1"), CAs: cas})
	defer w.end()
	w.push("t", tube.Policy{Rules: tube.Rules{Retry: []time.Duration{time.Hour}}, Push: tube.Push{URL: s.URL, Concurrency: 1}})
	for n := range uint64(2) {
		w.put("t", "x")
		w.until("it was called", func() bool {
			s := w.Dispatcher.Stats()
			return s.Leased == 0 && len(s.Tubes) > 0 && s.Tubes[0].Calls[Delivered]+s.Tubes[0].Calls[Broken] == n+1
		})
	}
	if called.Load() != 2 {
		t.Errorf("%d requests for two jobs", called.Load())
	}
}
