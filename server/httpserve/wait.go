package httpserve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// This file has what a request needs that waits: it must notice that its client is gone.

// maxRest is how much of a body a handler that waits may leave to ReadRest, in bytes.
const maxRest = 64 << 10

// ErrEnding is the cause of the end of a context of UntilEnding if the listener ends, or if the
// client sends more behind a request that waits than can be held.
var ErrEnding = errors.New("the wait ends")

type (
	endingKey struct{}
	connKey   struct{}
)

// Ending returns a channel that is closed when the Door that has got this request ends:
// who waits then answers without a result. It never closes for other contexts.
func Ending(ctx context.Context) <-chan struct{} {
	if ending, ok := ctx.Value(endingKey{}).(context.Context); ok {
		return ending.Done()
	}
	return nil
}

// ReadRest reads what a handler has left of a body. net/http looks for the end of a connection
// only after that of the body. More than 64 KiB are an *http.MaxBytesError.
func ReadRest(r *http.Request) error {
	n, err := io.CopyN(io.Discard, r.Body, maxRest+1)
	switch {
	case n > maxRest:
		return &http.MaxBytesError{Limit: maxRest}
	case err == io.EOF:
		return nil
	}
	return err
}

// UntilEnding returns a context for a handler that waits. It ends with the request, when the
// client is gone whatever it has sent before, and also, with the cause ErrEnding, when the Door
// that has got the request ends. It reads the rest of the body; if that fails, the context has
// ended, with the error as its cause. The function has to be called before the handler returns.
func UntilEnding(r *http.Request) (context.Context, context.CancelFunc) {
	if err := ReadRest(r); err != nil {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context())) // net/http may have ended it for that
		cancel(err)
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	stop, unwatch := func() bool { return true }, func() {}
	if ending, ok := ctx.Value(endingKey{}).(context.Context); ok {
		stop = context.AfterFunc(ending, func() { cancel(ErrEnding) })
	}
	if c, ok := ctx.Value(connKey{}).(*conn); ok && r.ProtoMajor < 2 {
		unwatch = c.watch(cancel)
	}
	return ctx, func() {
		stop()
		unwatch()
		cancel(nil)
	}
}

// lookahead is what lets a conn notice that its client is gone although there is something that
// nobody reads yet: net/http looks no further than the first byte behind a request. All fields
// are guarded by conn.mu.
type lookahead struct {
	end     context.CancelCauseFunc // ends what the request under way waits for; nil: none waits
	reading bool                    // net/http reads, or TLS below it
	looking chan struct{}           // closed when the look ahead, which reads instead, ends; nil: there is none
	bytes   []byte                  // what has come and was not read
}

// watch has end called when the client is gone, until the returned function is called.
func (c *conn) watch(end context.CancelCauseFunc) (unwatch func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead.end = end
	c.lookAhead()
	return func() {
		c.mu.Lock()
		c.ahead.end = nil
		looking := c.ahead.looking
		if looking != nil {
			c.Conn.SetReadDeadline(time.Unix(1, 0))
		}
		c.mu.Unlock()
		if looking != nil {
			<-looking
		}
	}
}

// lookAhead begins to read if a request waits and nobody reads. c.mu is held.
func (c *conn) lookAhead() {
	if c.ahead.end == nil || c.ahead.reading || c.ahead.looking != nil {
		return
	}
	c.ahead.looking = make(chan struct{})
	go c.look()
}

// look reads ahead while a request waits, and ends its wait if the client is gone. So does a
// client that sends more than smallPart behind the request.
func (c *conn) look() {
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
		c.Conn.SetReadDeadline(time.Time{}) // as net/http has it behind the end of a body
	case errors.Is(err, os.ErrDeadlineExceeded):
	case err == ErrEnding:
		c.ahead.end(err)
	default:
		c.gone.Store(true)
		c.ahead.end(nil)
	}
	close(c.ahead.looking)
	c.ahead.looking = nil
	c.mu.Unlock()
}

// Read returns first what was read ahead.
func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	for c.ahead.looking != nil {
		looking := c.ahead.looking
		c.mu.Unlock()
		<-looking
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead.reading = false; err == nil {
		c.lookAhead()
	}
	return n, err
}
