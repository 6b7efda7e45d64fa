package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/limits"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/storage/telemetry"
)

// withLimits is withServer with this configuration, and with the log.
func withLimits(t *testing.T, c Config, test func(h *harness, log *logBuffer)) {
	t.Helper()
	withServer(t, func(h *harness) {
		log := &logBuffer{}
		c.Log = slog.New(slog.NewTextHandler(log, nil))
		h.server.Shutdown(context.Background())
		h.reopen(c)
		test(h, log)
	})
}

// logBuffer is a log that many goroutines can use.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) count(s string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), s)
}

// endsBetween checks how long after begun the server closes the connection.
func (c *client) endsBetween(begun time.Time, earliest, latest time.Duration) {
	c.h.Helper()
	<-c.ended
	if took := time.Since(begun); took < earliest || took > latest {
		c.h.Errorf("closed after %v, want %v to %v", took, earliest, latest)
	}
}

func TestMaxConnections(t *testing.T) {
	withLimits(t, Config{Limits: limits.New(2, 0, 0)}, func(h *harness, log *logBuffer) {
		flood := func(n int) {
			for range n {
				<-h.connect().ended
			}
		}
		a, b := h.connect(), h.connect()
		a.put(60, "x")
		b.put(60, "x")
		flood(100)
		a.close()
		synctest.Wait()
		c := h.connect()
		c.put(60, "x")
		flood(100)
		b.put(60, "x")
		synctest.Wait()
		if n := log.count("too many connections"); n != 1 {
			t.Errorf("%d lines about one flood", n)
		}
		time.Sleep(2 * telemetry.ThrottleInterval)
		flood(3)
		synctest.Wait()
		if n := log.count("too many connections"); n != 2 {
			t.Errorf("%d lines about two floods", n)
		}
		if got := b.stat("stats", "current-connections"); got != "2" {
			t.Errorf("current-connections: %s", got)
		}
	})
}

func TestIdleTimeout(t *testing.T) {
	const limit = 10 * time.Second
	withLimits(t, Config{IdleTimeout: limit, WriteTimeout: -1}, func(h *harness, log *logBuffer) {
		begun := time.Now()
		mute, waiter, holder, slow := h.connect(), h.connect(), h.connect(), h.connect()
		waiter.send("watch nothing", "ignore default", "reserve")
		waiter.want("WATCHING 2", "WATCHING 1")
		id := holder.put(100, "x")
		holder.send("reserve")
		holder.want("RESERVED "+id+" 1", "x")
		slow.put(60, "one more")
		checked := make(chan struct{})
		go func() {
			mute.endsBetween(begun, limit, limit*5/4)
			close(checked)
		}()
		for range 10 {
			time.Sleep(limit / 2)
			slow.sendRaw("p") // a byte of a command is enough
		}
		<-checked
		holder.send("delete " + id)
		holder.want("DELETED")
		deleted := time.Now()
		holder.endsBetween(deleted, limit, limit*5/4)
		slow.endsBetween(deleted, 0, limit*5/4)
		producer := h.connect()
		producer.send("use nothing")
		producer.want("USING nothing")
		producer.put(60, "x")
		waiter.want("RESERVED 3 1", "x")
		synctest.Wait() // the last line of the log comes after the end of the connection
		if n := log.count("cause=idle"); n != 3 {
			t.Errorf("%d connections were idle, want 3", n)
		}
	})
}

// TestIdleTimeoutAsksTheStore: if the store does not answer, no connection is closed. A connection on
// which a command comes while the store is asked stays open.
func TestIdleTimeoutAsksTheStore(t *testing.T) {
	const limit = 10 * time.Second
	withLimits(t, Config{IdleTimeout: limit}, func(h *harness, _ *logBuffer) {
		c := h.connect()
		c.put(60, "x")
		h.store.set(func(p *proxyStore) { p.fail = func(*storage.Op) error { return storage.ErrUnavailable } })
		time.Sleep(5 * limit)
		if got := c.ask("peek 1"); got != "INTERNAL_ERROR" {
			t.Errorf("got %q", got)
		}
		asked, release := make(chan struct{}), make(chan struct{})
		h.store.set(func(p *proxyStore) {
			p.fail = func(op *storage.Op) error {
				if op.Kind == storage.Take {
					close(asked)
					<-release
				}
				return nil
			}
		})
		<-asked
		h.store.set(func(p *proxyStore) { p.fail = nil })
		c.send("peek 1")
		synctest.Wait()
		close(release)
		c.want("FOUND 1 1", "x")
		begun := time.Now()
		c.endsBetween(begun, limit, limit*5/4)
	})
}

// stalledClient returns a connection whose client sends text and reads nothing.
func (h *harness) stalledClient(text string) net.Conn {
	ours, theirs := net.Pipe()
	go h.server.ServeConn(theirs)
	go io.WriteString(ours, text)
	return ours
}

func TestWriteTimeout(t *testing.T) {
	const limit = 8 * time.Second
	withLimits(t, Config{WriteTimeout: limit}, func(h *harness, log *logBuffer) {
		c := h.connect()
		c.put(600, "x")
		wantClosed := func(commands string) {
			t.Helper()
			begun := time.Now()
			h.stalledClient(commands)
			synctest.Wait()
			for c.stat("stats", "current-connections") != "1" && time.Since(begun) < 2*limit {
				time.Sleep(limit / 16)
			}
			if took := time.Since(begun); took < limit || took > limit*3/2 {
				t.Errorf("%.20q: closed after %v, want %v", commands, took, limit)
			}
		}
		wantClosed("reserve\r\n" + strings.Repeat("stats\r\n", 10_000)) // many commands are left
		c.send("reserve")
		c.want("RESERVED 1 1", "x")
		wantClosed("list-tube-used\r\nreserve\r\n") // a reserve waits, behind a buffered reply
		if got := c.stat("stats", "current-waiting"); got != "0" {
			t.Errorf("current-waiting: %s", got)
		}
		if n := log.count("did not read"); n != 2 {
			t.Errorf("%d connections closed for that, want 2", n)
		}
	})
}

// TestSlowReader: a client that reads slowly is never disconnected.
func TestSlowReader(t *testing.T) {
	const limit = 8 * time.Second
	withLimits(t, Config{WriteTimeout: limit, IdleTimeout: limit}, func(h *harness, _ *logBuffer) {
		const n = 2000
		ours := h.stalledClient(strings.Repeat("list-tube-used\r\n", n) + "quit\r\n")
		var got int
		for buf := make([]byte, 8<<10); ; {
			time.Sleep(limit / 2)
			n, err := io.ReadFull(ours, buf)
			if got += n; err != nil {
				break
			}
		}
		if want := n * len("USING default\r\n"); got != want {
			t.Errorf("%d bytes came, want %d", got, want)
		}
	})
}

// TestSignalBeforeBegin: the server can shut down, or check time limits, after it knows a session and
// before the session begins.
func TestSignalBeforeBegin(t *testing.T) {
	withServer(t, func(h *harness) {
		ss := newSession(h.server, 99)
		ss.signal(shutdown)
		ss.signal(checkTime)
		if ss.signals.Load() != running|shutdown|checkTime {
			t.Errorf("signals: %b", ss.signals.Load())
		}
	})
}

// deepStore is a memory engine that detects nested calls of Do.
type deepStore struct {
	storage.Store
	t *testing.T
}

func (d *deepStore) Do(batches ...*storage.Batch) {
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	depth := 0
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "(*deepStore).Do") {
			depth++
		}
		if !more {
			break
		}
	}
	if depth > 1 {
		d.t.Errorf("the store was called from within its own Done, %d deep", depth)
	}
	d.Store.Do(batches...)
}

// TestDoneDoesNotCallTheStore: when its batch is done, a session does not call the store again in the
// goroutine that called Done.
func TestDoneDoesNotCallTheStore(t *testing.T) {
	for _, network := range []string{"pipe", "tcp"} {
		t.Run(network, func(t *testing.T) {
			store := &deepStore{embedded.NewMemory(), t}
			s := onStore(t, store)
			ours, theirs := connected(t, network)
			go s.ServeConn(theirs)
			const n = 500
			go io.WriteString(ours, strings.Repeat("peek-ready\r\nput 0 0 9 0\r\n\r\n", n)+"quit\r\n")
			replies, err := io.ReadAll(ours)
			if lines := bytes.Count(replies, []byte("\r\n")); err != nil || lines < 2*n {
				t.Errorf("%d lines, %v", lines, err)
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// connected returns both ends of a connection.
func connected(t *testing.T, network string) (ours, theirs net.Conn) {
	t.Helper()
	if network == "pipe" {
		ours, theirs = net.Pipe()
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if ours, err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if theirs, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { ours.Close() })
	return ours, theirs
}
