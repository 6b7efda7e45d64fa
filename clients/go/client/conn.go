package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is a connection to a server. Any number of goroutines can send commands on it; what
// they send at the same time leaves in one write. Replies come in the order of the commands.
//
// Three goroutines belong to it: write, read and watch. They end when the connection fails.
type conn struct {
	net   net.Conn
	in    *bufio.Reader // of the goroutine read, after the handshake
	addr  string
	caps  capabilities
	limit time.Duration // how long a reply can take

	mu       sync.Mutex
	out      []byte        // commands that the writer has not taken yet
	pending  []*call       // sent or in out, and not yet taken over by the reader
	unsent   int           // how many of the last calls are still in out
	used     string        // the tube that later puts go to
	watched  []string      // the tubes that later reserves take from
	wait     time.Duration // of the reserve that was sent last
	writing  bool          // the writer is awake
	halfDone bool          // nothing more will be sent
	retired  bool          // it ends when all calls are answered
	room     chan struct{} // closed when the writer takes out; nil if nobody waits
	err      error         // why the connection failed

	wake     chan struct{} // capacity 1; wakes the writer
	dead     chan struct{} // closed when err is set
	sent     atomic.Uint64 // calls so far, also those in out
	answered atomic.Uint64 // replies so far
	accepts  atomic.Bool   // the server has accepted a put
}

// maxBuffered is how many bytes of commands wait for the writer before senders wait.
const maxBuffered = 1 << 20

// defaultTube is used and watched by a new connection.
const defaultTube = "default"

func newConn(nc net.Conn, addr string, limit time.Duration) *conn {
	return &conn{
		net: nc, in: bufio.NewReaderSize(nc, 32<<10), addr: addr, limit: limit,
		used: defaultTube, watched: []string{defaultTube},
		wake: make(chan struct{}, 1), dead: make(chan struct{}),
	}
}

// do sends a call and waits for its reply. After an error the call must not be used again.
func (c *conn) do(ctx context.Context, call *call) error {
	if err := c.send(ctx, call); err != nil {
		return err
	}
	return c.await(ctx, call)
}

// send queues calls for the writer, with no other between them. An error is a notSentError.
func (c *conn) send(ctx context.Context, calls ...*call) error {
	if err := c.lockWithRoom(ctx); err != nil {
		return &notSentError{err}
	}
	for _, call := range calls {
		c.queue(call)
	}
	wake := !c.writing
	c.writing = true
	c.mu.Unlock()
	if wake {
		c.wake <- struct{}{}
	}
	return nil
}

// lockWithRoom locks c.mu when there is room in c.out.
func (c *conn) lockWithRoom(ctx context.Context) error {
	for {
		c.mu.Lock()
		if c.err == nil && len(c.out) < maxBuffered {
			return nil
		}
		if err := c.err; err != nil {
			c.mu.Unlock()
			return err
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-c.dead:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// queue appends a call, and before it the use of its tube. The caller holds c.mu.
func (c *conn) queue(call *call) {
	if call.tube != "" && call.tube != c.used {
		use := lineCall("use " + call.tube)
		use.tube, use.kind = call.tube, useTube
		c.used = call.tube
		c.push(use)
	}
	c.wait = call.wait
	c.push(call)
}

func (c *conn) push(call *call) {
	c.out = append(c.out, call.line...)
	if call.body != nil {
		c.out = append(append(c.out, call.body...), "\r\n"...)
	}
	c.pending = append(c.pending, call)
	c.unsent++
	c.sent.Add(1)
}

// await waits for the reply to a call that was sent. An error is a notSentError or a lostError.
func (c *conn) await(ctx context.Context, call *call) error {
	if ctx.Done() == nil { // a receive costs less than a select
		<-call.done
		return call.err
	}
	select {
	case <-call.done:
		return call.err
	case <-ctx.Done():
		return &lostError{context.Cause(ctx)}
	}
}

// write is the goroutine that sends what is queued.
func (c *conn) write() {
	var spare []byte
	for {
		select {
		case <-c.wake:
		case <-c.dead:
			return
		}
		for {
			c.gather()
			out, half := c.takeOut(spare)
			if out == nil {
				if half {
					c.closeWrite()
				}
				break
			}
			if _, err := c.net.Write(out); err != nil {
				c.fail(fmt.Errorf("sending to %s: %w", c.addr, err))
				return
			}
			if spare = out; cap(spare) > maxBuffered {
				spare = nil
			}
		}
	}
}

// gather lets others that are about to send add their commands, as long as they do.
func (c *conn) gather() {
	for before := -1; ; {
		runtime.Gosched()
		c.mu.Lock()
		n := len(c.out)
		c.mu.Unlock()
		if n == before || n > maxBuffered/2 {
			return
		}
		before = n
	}
}

// takeOut returns what is to be written next, and leaves spare in its place. If there is
// nothing, the writer is asleep from now on.
func (c *conn) takeOut(spare []byte) (out []byte, half bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) == 0 || c.err != nil {
		c.writing = false
		return nil, c.halfDone
	}
	out, c.out, c.unsent = c.out, spare[:0], 0
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
	return out, false
}

// finish announces to the server that nothing more is sent. It then ends a waiting reserve,
// and closes the connection after its replies.
func (c *conn) finish() {
	c.mu.Lock()
	c.halfDone = true
	wake := !c.writing
	c.writing = true
	c.mu.Unlock()
	if wake {
		c.wake <- struct{}{}
	}
}

func (c *conn) closeWrite() {
	if half, ok := c.net.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	} else {
		c.fail(ErrClosed)
	}
}

// read is the goroutine that receives replies. When the connection fails, it ends all calls.
func (c *conn) read() {
	var taken []*call // from c.pending
	next := 0
	var err error
	for {
		var line []byte
		if line, err = c.in.ReadSlice('\n'); err != nil {
			break
		}
		if next == len(taken) {
			clear(taken)
			c.mu.Lock()
			taken, c.pending = c.pending, taken[:0]
			c.mu.Unlock()
			next = 0
		}
		if len(taken) == 0 {
			err = fmt.Errorf("a reply to no command: %q", line)
			break
		}
		call := taken[next]
		if err = readReply(c.in, line, &call.reply); err != nil {
			break
		}
		next++
		c.answered.Add(1)
		if err = c.checkReply(call); err != nil {
			break
		}
		call.done <- struct{}{}
	}
	c.fail(fmt.Errorf("reading from %s: %w", c.addr, err))
	c.end(taken[next:])
}

// checkReply looks for refusals that concern more than the call, and returns an error if the
// connection cannot go on.
func (c *conn) checkReply(call *call) error {
	word := call.reply.Word
	switch {
	case call.kind == useTube && word == "FORBIDDEN": // so are the puts behind it
		c.mu.Lock()
		if c.used == call.tube {
			c.used = ""
		}
		c.mu.Unlock()
	case call.kind == useTube && word != "USING",
		call.kind == plainPut && (word == "BAD_FORMAT" || word == "UNKNOWN_COMMAND" || word == "EXPECTED_CRLF"):
		call.done <- struct{}{}
		return fmt.Errorf("%.40q: %w", call.line, call.reply.fail())
	}
	return nil
}

// end ends the calls that have no reply: those that the reader has taken, and the others.
func (c *conn) end(taken []*call) {
	c.mu.Lock()
	all := append(taken[:len(taken):len(taken)], c.pending...)
	unsent, err := c.unsent, c.err
	c.pending, c.out = nil, nil
	c.mu.Unlock()
	for i, call := range all {
		call.err = &lostError{err}
		if i >= len(all)-unsent {
			call.err = &notSentError{err}
		}
		call.done <- struct{}{}
	}
}

// watch is the goroutine that notices a server that does not answer.
func (c *conn) watch() {
	tick := time.NewTicker(max(c.limit/4, time.Millisecond))
	defer tick.Stop()
	seen, since := uint64(0), time.Now()
	for {
		select {
		case <-c.dead:
			return
		case <-tick.C:
		}
		if c.endRetired() {
			return
		}
		c.mu.Lock()
		sent, wait := c.sent.Load(), c.wait
		c.mu.Unlock()
		if now := c.answered.Load(); now != seen || now == sent {
			seen, since = now, time.Now()
		} else if time.Since(since) > c.limit+wait {
			c.fail(fmt.Errorf("%s: %w", c.addr, errNoReply))
			return
		}
	}
}

var errNoReply = errors.New("the server does not answer")

// unanswered returns how many calls have no reply yet.
func (c *conn) unanswered() uint64 {
	answered := c.answered.Load() // first, since it follows sent
	return c.sent.Load() - answered
}

// retire makes the connection end once all calls are answered.
func (c *conn) retire() {
	c.mu.Lock()
	c.retired = true
	c.mu.Unlock()
}

var errRetired = errors.New("calls go to another server")

// endRetired ends the connection if it is retired and has no calls. One that is sent at the same time is not sent.
func (c *conn) endRetired() bool {
	c.mu.Lock()
	end := c.retired && c.unanswered() == 0
	if end {
		c.setErr(errRetired)
	}
	c.mu.Unlock()
	if end {
		c.net.Close()
	}
	return end
}

// fail closes the connection. The goroutine read then ends the calls.
func (c *conn) fail(err error) {
	c.mu.Lock()
	c.setErr(err)
	c.mu.Unlock()
	c.net.Close()
}

// setErr makes err the reason why the connection failed, unless there is one. The caller holds c.mu.
func (c *conn) setErr(err error) {
	if c.err == nil {
		c.err = err
		close(c.dead)
	}
}

// alive reports whether the connection has not failed.
func (c *conn) alive() bool {
	select {
	case <-c.dead:
		return false
	default:
		return true
	}
}
