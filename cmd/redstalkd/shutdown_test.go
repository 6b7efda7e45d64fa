package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tools/conformance/busy"
)

// TestTerminate sends SIGTERM while one client holds a job, one waits, and one is in the
// middle of a long burst: no reply is cut short, all connections are closed, soon.
func TestTerminate(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p, addr := serve(t, "-p0", "--grace", "15s")
		holder, waiter, producer := dial(t, addr), dial(t, addr), dial(t, addr)
		holder.ask("put 0 0 99 1\r\na\r\n", "INSERTED 1")
		holder.ask("reserve\r\n", "RESERVED 1 1", "a")
		waiter.ask("watch other\r\n", "WATCHING 2")
		waiter.send("reserve\r\n")
		for stats := ""; !strings.Contains(stats, "current-waiting: 1\n"); {
			stats = holder.page("stats")
		}
		go producer.conn.Write([]byte(strings.Repeat("use t\r\nput 0 0 9 1\r\nb\r\n", 20_000)))
		producer.ask("", "USING t", "INSERTED 2")

		begun := time.Now()
		p.signal(t, sig)
		for _, c := range []*client{holder, waiter} {
			if rest, _ := io.ReadAll(c.conn); len(rest) != 0 {
				t.Errorf("%q instead of the end", rest)
			}
		}
		rest, _ := io.ReadAll(producer.conn)
		if len(rest) != 0 && !strings.HasSuffix(string(rest), "\r\n") {
			t.Errorf("half a reply: %q", rest[max(0, len(rest)-40):])
		}
		if code := p.code(t); code != 0 || !strings.Contains(p.stderr.String(), "msg=ended\n") {
			t.Errorf("%d\n%s", code, p.stderr)
		}
		if took := time.Since(begun); took > busy.Times(10*time.Second) {
			t.Errorf("%v took %v", sig, took)
		}
	}
}

// TestGraceIsBounded: a client that does not read its replies is cut off at the end of the
// grace period.
func TestGraceIsBounded(t *testing.T) {
	p, addr := serve(t, "-p0", "--grace", "100ms")
	c := dial(t, addr)
	for sent := 1; sent > 0; { // until its buffers are full
		c.conn.SetWriteDeadline(time.Now().Add(busy.Times(500 * time.Millisecond)))
		sent, _ = c.conn.Write([]byte(strings.Repeat("stats\r\n", 1<<20)))
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 || !strings.Contains(p.stderr.String(), "cut off") {
		t.Errorf("%d\n%s", code, p.stderr)
	}
}

// blockedStore is a store whose Close blocks.
type blockedStore struct {
	storage.Store
	closing chan struct{}
	release chan error
}

func (s blockedStore) Close() error {
	close(s.closing)
	return <-s.release
}

func newStuck(t *testing.T) (blockedStore, *Main) {
	s := blockedStore{embedded.NewMemory(), make(chan struct{}), make(chan error)}
	t.Cleanup(func() { close(s.release) })
	return s, &Main{open: func(context.Context, engine) (storage.Store, error) { return s, nil }}
}

func TestSecondSignal(t *testing.T) {
	s, m := newStuck(t)
	p := runInside(t, m, "-p0")
	receive(t, p.addr)
	p.signals <- syscall.SIGTERM
	receive(t, s.closing)
	p.signals <- syscall.SIGUSR1 // does not count as a second signal
	p.signals <- syscall.SIGINT
	if code := receive(t, p.code); code != 1 || !strings.Contains(p.stderr.String(), "second signal") {
		t.Errorf("%d, %s", code, p.stderr)
	}
}

func TestStoreThatDoesNotClose(t *testing.T) {
	_, m := newStuck(t)
	m.storeLimit = time.Millisecond
	p := runInside(t, m, "-p0", "--grace", "0")
	receive(t, p.addr)
	p.signals <- syscall.SIGTERM
	if code := receive(t, p.code); code != 1 || !strings.Contains(p.stderr.String(), "did not come to an end") {
		t.Errorf("%d, %s", code, p.stderr)
	}
}

func TestStoreThatFailsToClose(t *testing.T) {
	s, m := newStuck(t)
	p := runInside(t, m, "-p0", "--store", "redis://u:secret@h")
	receive(t, p.addr)
	p.stop()
	receive(t, s.closing)
	s.release <- errors.New("disk full at redis://u:secret@h")
	if code := receive(t, p.code); code != 1 || !strings.Contains(p.stderr.String(), "redis://xxxxx@h: disk full at redis://xxxxx@h") {
		t.Errorf("%d, %s", code, p.stderr)
	}
}

// TestEarlyEnd: the context is canceled, or a signal arrives, while the store is being opened.
func TestEarlyEnd(t *testing.T) {
	opening := make(chan struct{}, 1)
	m := &Main{open: func(ctx context.Context, _ engine) (storage.Store, error) {
		opening <- struct{}{}
		<-ctx.Done()
		return nil, errors.New("interrupted")
	}}
	p := runInside(t, m, "-p0")
	receive(t, opening)
	p.signals <- syscall.SIGTERM
	if code := receive(t, p.code); code != 0 || p.stderr.String() != "" {
		t.Errorf("%d, %s", code, p.stderr)
	}
}
