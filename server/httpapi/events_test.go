package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/storage/embedded"
)

// stream subscribes to events until the test ends. Headers are as in call.
func (a *harness) stream(query string, headers ...string) *bufio.Reader {
	a.t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+a.addr+"/v1/events"+query, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	reply, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		leave()
		reply.Body.Close()
	})
	if kind := reply.Header.Get("Content-Type"); reply.StatusCode != http.StatusOK || kind != "text/event-stream" {
		a.t.Fatalf("%d %s", reply.StatusCode, kind)
	}
	return bufio.NewReader(reply.Body)
}

// event reads the next event.
func event(t *testing.T, from *bufio.Reader) (name string, tubes []tubeInfo) {
	t.Helper()
	var data struct{ Tubes []tubeInfo }
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "event":
			name = value
		case "data":
			if err := json.Unmarshal([]byte(value), &data); err != nil {
				t.Fatal(err)
			}
		case "":
			return name, data.Tubes
		}
	}
}

// TestEvents: a subscriber gets the counts of the tubes in its query, or of all tubes, and then the changes.
func TestEvents(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	a.want(201, "POST", "/v1/tubes/b%2Fc/jobs", `{"body":"x"}`)
	all, some := a.stream(""), a.stream("?tube=b%2Fc&tube=later")
	if name, tubes := event(t, all); name != "tubes" || len(tubes) != 2 || tubes[0].Name != "b/c" || tubes[1].Name != "default" {
		t.Errorf("%s %+v", name, tubes)
	}
	if _, tubes := event(t, some); len(tubes) != 1 || tubes[0].Ready != 1 {
		t.Errorf("%+v", tubes)
	}
	a.want(201, "POST", "/v1/tubes/later/jobs", `{"body":"x","delay":500}`)
	for _, from := range []*bufio.Reader{all, some} {
		for {
			_, tubes := event(t, from)
			if last := tubes[len(tubes)-1]; last.Name == "later" && last.Delayed == 1 {
				break
			}
		}
	}
}

// TestMaxStreams: a stream beyond the limit is refused; a stream that ends makes room.
func TestMaxStreams(t *testing.T) {
	t.Parallel()
	a := start(t, Config{MaxStreams: 1})
	ctx, leave := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+a.addr+"/v1/events", nil)
	reply, err := a.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if got := a.want(429, "GET", "/v1/events", ""); got.header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	leave()
	for limit := time.Now().Add(time.Minute); a.api.service.streams.InUse() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the stream has not ended")
		}
	}
	a.stream("")
}

// oneConn is a listener with one connection.
type oneConn struct{ conns chan net.Conn }

func (l oneConn) Accept() (net.Conn, error) {
	c, open := <-l.conns
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l oneConn) Close() error   { return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestSubscriberThatDoesNotRead: a subscriber that does not read is disconnected, and sampling ends with the
// last subscriber.
func TestSubscriberThatDoesNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := embedded.NewMemory()
		q := queue.New(store, queue.Config{})
		api := New(q, Config{})
		server := httpserve.New(api, httpserve.Config{})
		l := oneConn{make(chan net.Conn)}
		go server.Serve(l)
		clientConn, serverConn := net.Pipe()
		l.conns <- serverConn
		io.WriteString(clientConn, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
		lines := bufio.NewReader(clientConn)
		for line := ""; line != "event: tubes\r\n" && line != "event: tubes\n"; {
			var err error
			if line, err = lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if api.service.streams.InUse() != 1 {
			t.Error("there is no open stream")
		}
		time.Sleep(eventLimit + 2*sampleEvery)
		synctest.Wait()
		if n := api.service.streams.InUse(); n != 0 || api.service.sampler.stop != nil {
			t.Errorf("%d streams are open after %v without reading", n, eventLimit)
		}
		clientConn.Close()
		close(l.conns)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		server.Shutdown(ctx)
		q.Close(ctx)
		store.Close()
	})
}
