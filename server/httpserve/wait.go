package httpserve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// This file is for requests that wait: they must notice that their client has left.

// maxReadRest limits how much of a body a handler that waits can leave to ReadRest, in
// bytes.
const maxReadRest = 64 << 10

// ErrEnding is the cause of the end of a context of UntilEnding if the server shuts down, or
// if the client sends more behind a waiting request than can be buffered.
var ErrEnding = errors.New("the wait ends")

type (
	endingKey struct{}
	connKey   struct{}
)

// Ending returns a channel that is closed when the Server of this request shuts down:
// handlers that wait then answer without a result. For other contexts it never closes.
func Ending(ctx context.Context) <-chan struct{} {
	if ending, ok := ctx.Value(endingKey{}).(context.Context); ok {
		return ending.Done()
	}
	return nil
}

// ReadRest reads what a handler has left of a body. net/http looks for the end of a
// connection only after that of the body. More than 64 KiB are an *http.MaxBytesError.
func ReadRest(r *http.Request) error {
	n, err := io.CopyN(io.Discard, r.Body, maxReadRest+1)
	switch {
	case n > maxReadRest:
		return &http.MaxBytesError{Limit: maxReadRest}
	case err == io.EOF:
		return nil
	}
	return err
}

// UntilEnding returns a context for a handler that waits. It ends with the request, when the
// client leaves, whatever it has sent before that, and, with the cause ErrEnding, when the
// Server of the request shuts down. UntilEnding reads the rest of the body; if that fails,
// the context has ended, with the error as its cause. The returned function must be called
// before the handler returns.
func UntilEnding(r *http.Request) (context.Context, context.CancelFunc) {
	if err := ReadRest(r); err != nil {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context())) // net/http may have ended it for the same reason
		cancel(err)
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	stop, unwatch := func() bool { return true }, func() {}
	if ending, ok := ctx.Value(endingKey{}).(context.Context); ok {
		stop = context.AfterFunc(ending, func() { cancel(ErrEnding) })
	}
	if c, ok := ctx.Value(connKey{}).(*conn); ok && r.ProtoMajor < 2 {
		unwatch = c.watchClient(cancel)
	}
	return ctx, func() {
		stop()
		unwatch()
		cancel(nil)
	}
}

// readAheadState lets a conn notice that its client has left although there are bytes that
// nobody reads yet: net/http looks no further than the first byte behind a request. conn.mu
// guards all fields.
type readAheadState struct {
	end     context.CancelCauseFunc // ends the wait of the current request; nil: none waits
	reading bool                    // net/http reads, or TLS below it
	done    chan struct{}           // closed when readAhead, which reads instead, ends; nil: it does not run
	bytes   []byte                  // received, but not read
}

// watchClient makes end be called when the client leaves, until the returned function is
// called.
func (c *conn) watchClient(end context.CancelCauseFunc) (unwatch func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead.end = end
	c.startReadAhead()
	return func() {
		c.mu.Lock()
		c.ahead.end = nil
		done := c.ahead.done
		if done != nil {
			c.Conn.SetReadDeadline(time.Unix(1, 0))
		}
		c.mu.Unlock()
		if done != nil {
			<-done
		}
	}
}

// startReadAhead begins to read if a request waits and nobody reads. c.mu is held.
func (c *conn) startReadAhead() {
	if c.ahead.end == nil || c.ahead.reading || c.ahead.done != nil {
		return
	}
	c.ahead.done = make(chan struct{})
	go c.readAhead()
}

// readAhead reads while a request waits, and ends its wait if the client has left, or if it
// sends more than smallPart behind the request.
func (c *conn) readAhead() {
	var err error
	part := make([]byte, 512)
	c.mu.Lock()
	for err == nil && c.ahead.end != nil {
		if len(c.ahead.bytes) > smallPart {
			err = ErrEnding
			break
		}
		c.mu.Unlock()
		var n int
		n, err = c.Conn.Read(part)
		c.mu.Lock()
		c.ahead.bytes = append(c.ahead.bytes, part[:n]...)
	}
	switch {
	case c.ahead.end == nil:
		c.Conn.SetReadDeadline(time.Time{}) // as net/http sets it behind the end of a body
	case errors.Is(err, os.ErrDeadlineExceeded):
	case err == ErrEnding:
		c.ahead.end(err)
	default:
		c.gone.Store(true)
		c.ahead.end(nil)
	}
	close(c.ahead.done)
	c.ahead.done = nil
	c.mu.Unlock()
}

// Read first returns what was read ahead.
func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	for c.ahead.done != nil {
		done := c.ahead.done
		c.mu.Unlock()
		<-done
		c.mu.Lock()
	}
	if len(c.ahead.bytes) > 0 {
		defer c.mu.Unlock()
		n := copy(p, c.ahead.bytes)
		if c.ahead.bytes = c.ahead.bytes[n:]; len(c.ahead.bytes) == 0 {
			c.ahead.bytes = nil
		}
		return n, nil
	}
	c.ahead.reading = true
	c.mu.Unlock()
	n, err := c.Conn.Read(p)
	if c.srv.config.HTTP2 && err == nil {
		n, err = c.admitStreams(p[:n])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead.reading = false; err == nil {
		c.startReadAhead()
	}
	return n, err
}
