package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	protoclient "redstalk/protocol/client"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
)

// atLength leaves a test to make test-long.
func atLength(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
}

// world is a server on a memory engine inside a bubble of virtual time.
type harness struct {
	*testing.T
	server  *Server
	queue   *queue.Queue
	store   *proxyStore
	maxJob  int               // see queue.Config
	mayPush func(string) bool // likewise
}

// inWorld runs test in a bubble, in which sleeping takes no time.
func withServer(t *testing.T, test func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &proxyStore{Store: embedded.NewMemory()}
		h := &harness{T: t, store: store}
		h.open(Config{})
		test(h)
		if err := h.server.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		h.queue.Close(context.Background())
		store.Close()
	})
}

// open puts a server of this configuration on the world's store.
func (h *harness) open(c Config) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	h.queue = queue.New(h.store, queue.Config{Version: "0.1.0-test", Log: c.Log, MaxJobSize: h.maxJob, MayPush: h.mayPush})
	h.server = New(h.queue, c)
}

// reopen is open, after the server there was has been shut down.
func (h *harness) reopen(c Config) {
	h.queue.Close(context.Background())
	h.open(c)
}

// onStore is a server on a store outside of any world. Its queue is closed at the
// end of the test.
func onStore(t *testing.T, store storage.Store) *Server {
	log := slog.New(slog.DiscardHandler)
	q := queue.New(store, queue.Config{Log: log})
	t.Cleanup(func() { q.Close(context.Background()) })
	return New(q, Config{Log: log})
}

// door is a store through which a test can let operations fail and hints get
// lost.
type proxyStore struct {
	storage.Store
	mu          sync.Mutex
	fail        func(*storage.Op) error
	dropWakeUps bool
	batches     int
	takes       int // operations
	searched    int // tubes, by them
	largest     int // of all batches, in operations

	mostSearched, mostRefs int // tubes of one batch

	onDo func(*storage.Batch)                                       // before it is carried out
	tick func(func() (time.Duration, error)) (time.Duration, error) // in place of Tick, with that
}

func (p *proxyStore) set(change func(*proxyStore)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// counts returns how many takes there were, in how many tubes, and how large the
// largest batch was.
func (p *proxyStore) counts() (takes, searched, largest int) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takes, p.searched, p.largest
}

func (p *proxyStore) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		p.do(b)
	}
}

func (p *proxyStore) do(b *storage.Batch) {
	p.mu.Lock()
	fail, onDo := p.fail, p.onDo
	p.batches++
	p.largest = max(p.largest, len(b.Ops))
	searched, attended := 0, 0
	for i := range b.Ops {
		switch op := &b.Ops[i]; op.Kind {
		case storage.Take:
			p.takes++
			searched += len(op.Tubes)
		case storage.Ref:
			attended += len(op.Tubes)
		}
	}
	p.searched += searched
	p.mostSearched, p.mostRefs = max(p.mostSearched, searched), max(p.mostRefs, attended)
	p.mu.Unlock()
	if onDo != nil {
		onDo(b)
	}
	if fail == nil {
		p.Store.Do(b)
		return
	}
	for i := range b.Ops {
		if err := fail(&b.Ops[i]); err != nil {
			for j := range b.Ops {
				b.Ops[j].Answer = storage.Answer{Err: err}
			}
			b.Done()
			return
		}
	}
	p.Store.Do(b)
}

func (p *proxyStore) Tick() (time.Duration, error) {
	p.mu.Lock()
	tick := p.tick
	p.mu.Unlock()
	if tick == nil {
		return p.Store.Tick()
	}
	return tick(p.Store.Tick)
}

func (p *proxyStore) Listen(l storage.Listener) { p.Store.Listen(proxyListener{l, p}) }

type proxyListener struct {
	storage.Listener
	proxy *proxyStore
}

func (l proxyListener) Ready(tube string) bool {
	l.proxy.mu.Lock()
	deaf := l.proxy.dropWakeUps
	l.proxy.mu.Unlock()
	return deaf || l.Listener.Ready(tube)
}

// client is a connection to the world's server. What the server sends is
// collected at once, so that it never blocks on us.
type client struct {
	h     *harness
	conn  net.Conn
	lines chan string // replies, bodies and pages as lines of their own
	ended chan struct{}
}

func (h *harness) connect() *client { return h.connectFor(100_000) }

// connectMany returns clients who are sent a command each, and few lines.
func (h *harness) connectMany(n int, command string) (all []*client) {
	for range n {
		c := h.connectFor(10)
		c.send(command)
		all = append(all, c)
	}
	return all
}

// connectFor is for so many lines that nobody has read yet.
func (h *harness) connectFor(lines int) *client {
	h.Helper()
	ours, theirs := net.Pipe()
	c := &client{h: h, conn: ours, lines: make(chan string, lines), ended: make(chan struct{})}
	go h.server.ServeConn(theirs)
	go c.collect()
	return c
}

func (c *client) collect() {
	defer close(c.ended)
	r := protoclient.New(c.conn)
	for {
		line, err := r.Line()
		if err != nil {
			return
		}
		c.lines <- strings.TrimSuffix(line, "\n")
	}
}

// send sends commands, each a line.
func (c *client) send(commands ...string) {
	c.h.Helper()
	c.sendRaw(strings.Join(commands, "\r\n") + "\r\n")
}

func (c *client) sendRaw(text string) {
	c.h.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.h.Fatalf("sending %.60q: %v", text, err)
	}
}

// want checks the next lines of what has come, and waits for them.
func (c *client) want(lines ...string) {
	c.h.Helper()
	for _, want := range lines {
		select {
		case got := <-c.lines:
			if got != want {
				c.h.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(time.Hour):
			c.h.Fatalf("got nothing, want %q", want)
		}
	}
}

// silent checks that nothing has come.
func (c *client) wantNothing() {
	c.h.Helper()
	synctest.Wait()
	select {
	case got := <-c.lines:
		c.h.Fatalf("got %q, want nothing", got)
	default:
	}
}

// ask sends one command and returns the first line of the reply.
func (c *client) ask(command string) string {
	c.h.Helper()
	c.send(command)
	return <-c.lines
}

// wantWithin checks the next line and when it comes, since begun.
func (c *client) wantWithin(begun time.Time, after time.Duration, line string) {
	c.h.Helper()
	c.want(line)
	if took := time.Since(begun); took < after || took > after+5*time.Millisecond {
		c.h.Errorf("%q came after %v, want %v", line, took, after)
	}
}

// put puts a job with this TTR and returns its id.
func (c *client) put(ttr int, body string) string {
	c.h.Helper()
	var id string
	c.sendRaw(fmt.Sprintf("put 0 0 %d %d\r\n%s\r\n", ttr, len(body), body))
	if _, err := fmt.Sscanf(<-c.lines, "INSERTED %s", &id); err != nil {
		c.h.Fatalf("putting a job: %v", err)
	}
	return id
}

// figure reads one number off a page of statistics.
func (c *client) stat(command, key string) string {
	c.h.Helper()
	c.send(command)
	value := "missing"
	for line := range c.lines {
		if line == "" {
			return value
		}
		if rest, ok := strings.CutPrefix(line, key+": "); ok {
			value = rest
		}
	}
	return value
}

func (c *client) close() {
	c.conn.Close()
	<-c.ended
}
