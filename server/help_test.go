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
type world struct {
	*testing.T
	server  *Server
	queue   *queue.Queue
	store   *door
	maxJob  int               // see queue.Config
	mayPush func(string) bool // likewise
}

// inWorld runs test in a bubble, in which sleeping takes no time.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &door{Store: embedded.NewMemory()}
		w := &world{T: t, store: store}
		w.open(Config{})
		test(w)
		if err := w.server.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		w.queue.Close(context.Background())
		store.Close()
	})
}

// open puts a server of this configuration on the world's store.
func (w *world) open(c Config) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	w.queue = queue.New(w.store, queue.Config{Version: "0.1.0-test", Log: c.Log, MaxJobSize: w.maxJob, MayPush: w.mayPush})
	w.server = New(w.queue, c)
}

// reopen is open, after the server there was has been shut down.
func (w *world) reopen(c Config) {
	w.queue.Close(context.Background())
	w.open(c)
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
type door struct {
	storage.Store
	mu       sync.Mutex
	fail     func(*storage.Op) error
	deafness bool
	batches  int
	takes    int // operations
	searched int // tubes, by them
	largest  int // of all batches, in operations

	mostSearched, mostAttended int // tubes of one batch

	onDo func(*storage.Batch)                                       // before it is carried out
	tick func(func() (time.Duration, error)) (time.Duration, error) // in place of Tick, with that
}

func (d *door) set(change func(*door)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

// counts returns how many takes there were, in how many tubes, and how large the
// largest batch was.
func (d *door) counts() (takes, searched, largest int) {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.takes, d.searched, d.largest
}

func (d *door) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		d.do(b)
	}
}

func (d *door) do(b *storage.Batch) {
	d.mu.Lock()
	fail, onDo := d.fail, d.onDo
	d.batches++
	d.largest = max(d.largest, len(b.Ops))
	searched, attended := 0, 0
	for i := range b.Ops {
		switch op := &b.Ops[i]; op.Kind {
		case storage.Take:
			d.takes++
			searched += len(op.Tubes)
		case storage.Ref:
			attended += len(op.Tubes)
		}
	}
	d.searched += searched
	d.mostSearched, d.mostAttended = max(d.mostSearched, searched), max(d.mostAttended, attended)
	d.mu.Unlock()
	if onDo != nil {
		onDo(b)
	}
	if fail == nil {
		d.Store.Do(b)
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
	d.Store.Do(b)
}

func (d *door) Tick() (time.Duration, error) {
	d.mu.Lock()
	tick := d.tick
	d.mu.Unlock()
	if tick == nil {
		return d.Store.Tick()
	}
	return tick(d.Store.Tick)
}

func (d *door) Listen(l storage.Listener) { d.Store.Listen(doorListener{l, d}) }

type doorListener struct {
	storage.Listener
	door *door
}

func (l doorListener) Ready(tube string) bool {
	l.door.mu.Lock()
	deaf := l.door.deafness
	l.door.mu.Unlock()
	return deaf || l.Listener.Ready(tube)
}

// client is a connection to the world's server. What the server sends is
// collected at once, so that it never blocks on us.
type client struct {
	w     *world
	conn  net.Conn
	lines chan string // replies, bodies and pages as lines of their own
	ended chan struct{}
}

func (w *world) connect() *client { return w.connectFor(100_000) }

// connectMany returns clients who are sent a command each, and few lines.
func (w *world) connectMany(n int, command string) (all []*client) {
	for range n {
		c := w.connectFor(10)
		c.send(command)
		all = append(all, c)
	}
	return all
}

// connectFor is for so many lines that nobody has read yet.
func (w *world) connectFor(lines int) *client {
	w.Helper()
	ours, theirs := net.Pipe()
	c := &client{w: w, conn: ours, lines: make(chan string, lines), ended: make(chan struct{})}
	go w.server.ServeConn(theirs)
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
	c.w.Helper()
	c.sendRaw(strings.Join(commands, "\r\n") + "\r\n")
}

func (c *client) sendRaw(text string) {
	c.w.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.w.Fatalf("sending %.60q: %v", text, err)
	}
}

// want checks the next lines of what has come, and waits for them.
func (c *client) want(lines ...string) {
	c.w.Helper()
	for _, want := range lines {
		select {
		case got := <-c.lines:
			if got != want {
				c.w.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(time.Hour):
			c.w.Fatalf("got nothing, want %q", want)
		}
	}
}

// silent checks that nothing has come.
func (c *client) silent() {
	c.w.Helper()
	synctest.Wait()
	select {
	case got := <-c.lines:
		c.w.Fatalf("got %q, want nothing", got)
	default:
	}
}

// ask sends one command and returns the first line of the reply.
func (c *client) ask(command string) string {
	c.w.Helper()
	c.send(command)
	return <-c.lines
}

// wantWithin checks the next line and when it comes, since begun.
func (c *client) wantWithin(begun time.Time, after time.Duration, line string) {
	c.w.Helper()
	c.want(line)
	if took := time.Since(begun); took < after || took > after+5*time.Millisecond {
		c.w.Errorf("%q came after %v, want %v", line, took, after)
	}
}

// put puts a job with this TTR and returns its id.
func (c *client) put(ttr int, body string) string {
	c.w.Helper()
	var id string
	c.sendRaw(fmt.Sprintf("put 0 0 %d %d\r\n%s\r\n", ttr, len(body), body))
	if _, err := fmt.Sscanf(<-c.lines, "INSERTED %s", &id); err != nil {
		c.w.Fatalf("putting a job: %v", err)
	}
	return id
}

// figure reads one number off a page of statistics.
func (c *client) figure(command, key string) string {
	c.w.Helper()
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
