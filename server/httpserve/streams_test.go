package httpserve_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/httpserve"
)

// frame returns an HTTP/2 frame.
func frame(kind, flags byte, stream uint32, payload string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))[1:]
	b = binary.BigEndian.AppendUint32(append(b, kind, flags), stream)
	return append(b, payload...)
}

// resets returns what a client sends that begins n requests and takes each back at once.
func resets(n int) []byte {
	var b bytes.Buffer
	b.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	b.Write(frame(4, 0, 0, ""))
	for i := range uint32(n) {
		b.Write(frame(1, 4, 2*i+1, "\x83\x86\x84\x01\x01x")) // POST, http, /, and a host
		b.Write(frame(3, 0, 2*i+1, "\x00\x00\x00\x08"))
	}
	return b.Bytes()
}

// TestStreamsAreBounded: however many requests HTTP/2 clients begin and take back, few handlers
// run at the same time, and those of one address leave room for others. When they have ended,
// requests are served as before.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	var blocked chan struct{} // of the bubble
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-blocked
			running.Add(-1)
		}
	}
	serveVirtualWith(t, h, httpserve.Config{HTTP2: true}, func(t *testing.T, p *pipes) {
		blocked = make(chan struct{})
		for range 10 {
			c := p.dial()
			defer c.Close()
			go io.Copy(io.Discard, c)
			c.Write(resets(httpserve.MaxStreams / 2)[:500]) // in two parts, not at the end of a frame
			go c.Write(resets(1000)[500:])
		}
		time.Sleep(10 * time.Second)
		if n := most.Load(); n < httpserve.MaxStreams || n > httpserve.MaxAllStreams/2 {
			t.Errorf("%d handlers were running", n)
		}
		close(blocked)
		synctest.Wait()
		for range 2 * httpserve.MaxAllStreams {
			c := p.dial()
			go c.Write(resets(1))
			go io.Copy(io.Discard, c)
			synctest.Wait()
			c.Close()
		}
		if n := running.Load(); n != 0 {
			t.Errorf("%d handlers are running", n)
		}
		c := p.dial()
		go io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if text, _ := answered(t, c); !strings.Contains(text, "200 OK") {
			t.Error(text)
		}
	})
}

// TestStreamsOfMany: connections of one address that begin more requests together than it can have wait for
// room, not for each other.
func TestStreamsOfMany(t *testing.T) {
	t.Parallel()
	const conns, each = 12, httpserve.MaxStreams
	var served atomic.Int64
	h := func(_ http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(served.Add(1)) * time.Millisecond) // they end one by one
	}
	serveVirtualWith(t, h, httpserve.Config{HTTP2: true}, func(t *testing.T, p *pipes) {
		var b bytes.Buffer
		b.Write(resets(0))
		for i := range uint32(each) {
			b.Write(frame(1, 5, 2*i+1, "\x82\x86\x84\x01\x01x")) // GET, http, /, and a host
		}
		for range conns {
			c := p.dial()
			defer c.Close()
			go io.Copy(io.Discard, c)
			go c.Write(b.Bytes())
		}
		time.Sleep(20 * time.Second)
		if n := served.Load(); n != conns*each {
			t.Errorf("%d requests of %d were served", n, conns*each)
		}
	})
}

// TestNoHTTP2: without Config.HTTP2 a client that begins with HTTP/2 gets an error at once.
func TestNoHTTP2(t *testing.T) {
	t.Parallel()
	serveVirtualWith(t, echo, httpserve.Config{}, func(t *testing.T, p *pipes) {
		c := p.dial()
		go c.Write(resets(1))
		if text, after := answered(t, c); !strings.HasPrefix(text, "HTTP/1.1 505") || after > time.Second {
			t.Errorf("%q after %v", text, after)
		}
	})
}
