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

// atLength skips a test that only make test-long runs.
func atLength(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
}

// harness is a server on a memory engine inside a synctest bubble.
type harness struct {
	*testing.T
	server  *Server
	queue   *queue.Queue
	store   *proxyStore
	maxJob  int               // see queue.Config
	mayPush func(string) bool // see queue.Config
}

// withServer runs test with a server, in a bubble in which sleeping takes no time.
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

// open creates a server with this configuration on the harness's store.
func (h *harness) open(c Config) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	h.queue = queue.New(h.store, queue.Config{Version: "0.1.0-test", Log: c.Log, MaxJobSize: h.maxJob, MayPush: h.mayPush})
	h.server = New(h.queue, c)
}

// reopen is open after the earlier server was shut down.
func (h *harness) reopen(c Config) {
	h.queue.Close(context.Background())
	h.open(c)
}

// onStore returns a server on a store, without a harness. Its queue is closed at the end of the test.
func onStore(t *testing.T, store storage.Store) *Server {
	log := slog.New(slog.DiscardHandler)
	q := queue.New(store, queue.Config{Log: log})
	t.Cleanup(func() { q.Close(context.Background()) })
	return New(q, Config{Log: log})
}

// proxyStore passes calls to a store. It counts operations, and a test can make them fail and drop
// wake-ups.
type proxyStore struct {
	storage.Store
	mu          sync.Mutex
	fail        func(*storage.Op) error
	dropWakeUps bool
	batches     int
	takes       int // Take operations
	searched    int // tubes in those
	largest     int // operations in the largest batch

	mostSearched, mostRefs int // largest number of tubes in the Take and Ref operations of one batch

	onDo func(*storage.Batch)                                       // called before a batch is carried out
	tick func(func() (time.Duration, error)) (time.Duration, error) // called instead of Tick, with the store's Tick
}

func (p *proxyStore) set(change func(*proxyStore)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// counts returns the number of takes, of tubes in them, and of operations in the largest batch.
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
	searched, refs := 0, 0
	for i := range b.Ops {
		switch op := &b.Ops[i]; op.Kind {
		case storage.Take:
			p.takes++
			searched += len(op.Tubes)
		case storage.Ref:
			refs += len(op.Tubes)
		}
	}
	p.searched += searched
	p.mostSearched, p.mostRefs = max(p.mostSearched, searched), max(p.mostRefs, refs)
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

func (l proxyListener) WakeUp(tube string) bool {
	l.proxy.mu.Lock()
	drop := l.proxy.dropWakeUps
	l.proxy.mu.Unlock()
	return drop || l.Listener.WakeUp(tube)
}

// client is a connection to the server of a harness. It receives all lines at once, so that the server
// never blocks.
type client struct {
	h     *harness
	conn  net.Conn
	lines chan string // replies; bodies and pages are lines of their own
	ended chan struct{}
}

func (h *harness) connect() *client { return h.connectFor(100_000) }

// connectMany connects n clients, each of which sends a command and receives few lines.
func (h *harness) connectMany(n int, command string) (all []*client) {
	for range n {
		c := h.connectFor(10)
		c.send(command)
		all = append(all, c)
	}
	return all
}

// connectFor connects a client that can hold this many unread lines.
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

// want waits for the next lines and checks them.
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

// wantNothing checks that no line has come.
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

// wantWithin checks the next line, and that it comes after this time since begun.
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

// stat returns the value of a key of a stats page.
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
