package httpserve_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/server/httpserve"
	"redstalk/server/limits"
	"redstalk/tools/conformance/busy"
)

// TestUnreadIsBounded: of clients that leave a large answer unread, enough are cut off that
// the others are within the limit. These get all of it when they read at last, and so does
// one that reads slowly all the time.
func TestUnreadIsBounded(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2.0": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				if tryUnread(t, set) {
					return
				}
			}
			t.Skip("void: the machine is too busy")
		})
	}
}

// tryUnread makes eight clients leave an answer unread, and one read it slowly. It returns
// false if the slow one, or the server that writes to it, did not run for so long that it
// may be cut off too, or if the eight did not connect in time.
func tryUnread(t *testing.T, set func(*http.Protocols)) (fair bool) {
	t.Helper()
	const size, clients, most = 16 << 20, 8, 30 << 20
	large, failed := make([]byte, size), new(atomic.Int64)
	_, addr := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n, err := w.Write(large); err != nil || n < size {
			failed.Add(1)
		}
	}), httpserve.Config{Limits: limits.New(0, most, 0), WriteTimeout: time.Hour, HTTP2: true})
	transport := &http.Transport{Protocols: new(http.Protocols)}
	set(transport.Protocols)
	defer transport.CloseIdleConnections()
	var all []io.ReadCloser
	for begun := time.Now(); len(all) <= clients; {
		reply, err := (&http.Client{Transport: transport}).Get("http://" + addr)
		if err != nil && time.Since(begun) > limits.Check/2 {
			return false // the first ones have waited too long for the last
		} else if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		all = append(all, reply.Body)
	}
	slow, all := all[0], all[1:]
	n, pause, err := readSlowly(slow, size)
	if err != nil && (pause > limits.Check/2 || busy.Factor() > 2) {
		return false
	}
	if err != nil {
		t.Errorf("the slow reader gets %d bytes, and never paused longer than %v: %v", n, pause, err)
	}
	for limit := time.Now().Add(time.Minute); failed.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("nobody is cut off")
		}
	}
	cut := int64(0)
	for _, body := range all {
		if n, err := io.Copy(io.Discard, body); err != nil || n < size {
			cut++
		}
	}
	if cut != failed.Load() || cut == clients {
		t.Errorf("%d were cut off, %d writes have failed", cut, failed.Load())
	}
	return true
}

// readSlowly reads size bytes in about three seconds. pause is the longest time from one
// read to the next.
func readSlowly(from io.Reader, size int64) (all int64, pause time.Duration, err error) {
	for begun := time.Now(); all < size && err == nil; begun = time.Now() {
		var n int64
		n, err = io.CopyN(io.Discard, from, size/32)
		all += n
		time.Sleep(100 * time.Millisecond)
		pause = max(pause, time.Since(begun))
	}
	return all, pause, err
}

// TestRequests: requests and their answers are counted by the names that handlers give them.
// A panic is a failure, also behind a wrapped writer.
func TestRequests(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/silent", httpserve.Named("silent", func(http.ResponseWriter, *http.Request) {}))
	mux.HandleFunc("/teapot", httpserve.Named("teapot", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
	}))
	mux.HandleFunc("/panic", func(w http.ResponseWriter, _ *http.Request) {
		httpserve.Name(struct{ wrapped }{wrapped{w}}, "panic")
		panic(http.ErrAbortHandler)
	})
	d, addr := start(t, mux, httpserve.Config{Name: "test"})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // otherwise it would repeat the panic
	for _, path := range []string{"/silent", "/silent", "/teapot", "/panic", "/none"} {
		reply, err := client.Get("http://" + addr + path)
		if (err != nil) != (path == "/panic") {
			t.Fatal(path, err)
		}
		if err == nil {
			reply.Body.Close()
		}
	}
	got := ""
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		got = ""
		all := uint64(0)
		for _, s := range d.Requests() {
			all += s.Took.Count()
			got += fmt.Sprintf("%s%v%d ", s.Operation, s.Statuses, s.Took.Count())
		}
		if all >= 5 { // a request is counted just after its answer has arrived
			break
		}
	}
	if want := "othermap[404:1]1 panicmap[500:1]1 silentmap[200:2]2 teapotmap[418:1]1 "; got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
	if d.Name() != "test" {
		t.Errorf("the server is called %s", d.Name())
	}
	httpserve.Name(nil, "no server") // without any effect
}

type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }
