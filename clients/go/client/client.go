package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Client sends commands to a server, or to any of several that share their jobs. All its
// methods can be called from any number of goroutines.
type Client struct {
	opts  options
	addrs *addresses
	links []*link
	next  atomic.Uint32 // the link of the next call
	waits waits

	ctx  context.Context // ends when the client is closed
	stop context.CancelCauseFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup     // goroutines that end by themselves soon after stop
	conns   map[*conn]struct{} // all that have not failed
	readers sync.WaitGroup     // goroutines of conns
}

// New returns a client of the server at addr: HOST:PORT or unix:PATH, or several of them with
// commas, of which all must serve the same jobs. It connects with the first call.
func New(addr string, opts ...Option) *Client {
	c := &Client{opts: defaults(), addrs: newAddresses(addr), conns: map[*conn]struct{}{}}
	for _, opt := range opts {
		opt(&c.opts)
	}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	for range c.opts.connections {
		c.links = append(c.links, &link{client: c})
	}
	c.waits.lanes = make(chan *link, lanes)
	for range lanes {
		c.waits.lanes <- &link{client: c}
	}
	return c
}

// Close closes all connections. Calls under way fail with [ErrClosed]; what was sent has an
// unknown outcome. It waits up to a second for jobs that arrive for a [Consumer] whose context
// has ended, and gives them back.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop(ErrClosed)
	c.running.Wait()
	c.mu.Lock()
	open := slices.Collect(maps.Keys(c.conns))
	c.mu.Unlock()
	for _, conn := range open {
		conn.fail(ErrClosed)
	}
	c.readers.Wait()
	return nil
}

// adopt starts the goroutines of a new connection, which Close closes.
func (c *Client) adopt(conn *conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.net.Close()
		return ErrClosed
	}
	c.conns[conn] = struct{}{}
	c.readers.Go(conn.write)
	c.readers.Go(conn.watch)
	c.readers.Go(func() {
		conn.read()
		c.opts.logger.Debug("disconnected", "addr", conn.addr, "reason", conn.err)
		c.mu.Lock()
		delete(c.conns, conn)
		c.mu.Unlock()
	})
	return nil
}

// spawn runs f in a goroutine that Close waits for, unless the client is closed.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Go(f)
	}
	return !c.closed
}

// Capabilities returns what the server can do beyond beanstalkd; nothing for beanstalkd itself.
// The client asks once for each connection.
func (c *Client) Capabilities(ctx context.Context) ([]Capability, error) {
	conn, err := c.links[0].conn(ctx, new(time.Time))
	if err != nil {
		return nil, fmt.Errorf("capabilities: %w", err)
	}
	return append([]Capability(nil), conn.caps...), nil
}

// A request is a command with what is to be done if its reply does not come.
type request struct {
	name    string // for errors
	changes bool   // the command changes something
	repeat  bool   // carried out twice it does the same as once
	command
}

// A command makes the call for a server, and reads the reply.
type command interface {
	build(*conn) (*call, error)
	accept(*Reply) error
}

// funcs is a command of two functions.
type funcs struct {
	call  func(*conn) (*call, error)
	reply func(*Reply) error
}

func (f *funcs) build(c *conn) (*call, error) { return f.call(c) }
func (f *funcs) accept(r *Reply) error        { return f.reply(r) }

// repeats is how often a request is sent again after its reply was lost.
const repeats = 5

// do sends a request, and again while that cannot do harm: if it was not sent, or if it can be
// repeated. It ends with the context, or when no server was available for the client's wait.
func (c *Client) do(ctx context.Context, r *request) error {
	var state attempts
	for {
		err := c.try(ctx, r, &state.limit)
		if err == nil {
			return nil
		}
		if uncertain(err) {
			state.noteLost()
		}
		if !state.allow(ctx, r, err) || sleep(ctx, pause(state.lost)) != nil {
			return r.explain(err)
		}
	}
}

// attempts is the state of a request, or of several, that may be sent again.
type attempts struct {
	limit time.Time // until when to wait for a connection; zero if there was one
	lost  int       // how often a reply was lost
}

func (a *attempts) noteLost() {
	a.lost++
	a.limit = time.Time{}
}

// allow reports whether a request that failed can be sent again.
func (a *attempts) allow(ctx context.Context, r *request, err error) bool {
	again := isNotSent(err) && !errors.Is(err, ErrUnavailable) || uncertain(err) && r.repeat && a.lost <= repeats
	return again && !permanent(err) && ctx.Err() == nil
}

func isNotSent(err error) bool {
	var notSent *notSentError
	return errors.As(err, &notSent)
}

// uncertain reports whether an error leaves open if the command was carried out.
func uncertain(err error) bool {
	var lost *lostError
	return errors.As(err, &lost) || errors.Is(err, ErrServer)
}

// explain adds the name of the request to an error, and that its outcome is unknown if so.
func (r *request) explain(err error) error {
	if r.changes && uncertain(err) {
		return fmt.Errorf("%s: %w: %w", r.name, ErrUnknownOutcome, err)
	}
	return fmt.Errorf("%s: %w", r.name, err)
}

// link returns the link of the next call: the first that is connected and not busy; else one that is not connected; else
// each in turn.
func (c *Client) link() *link {
	var idle *link
	for _, l := range c.links {
		conn := l.live.Load()
		if conn != nil && conn.alive() {
			if conn.unanswered() < busy {
				return l
			}
		} else if idle == nil {
			idle = l
		}
	}
	if idle != nil {
		return idle
	}
	return c.links[c.next.Add(1)%uint32(len(c.links))]
}

// busy is how many calls make a connection busy. A redstalk server carries out so many of one connection at a time. Fewer on
// more connections would cost both sides more.
const busy = 64

// try sends a request once. It waits for a connection until limit, which it sets when it begins to wait.
func (c *Client) try(ctx context.Context, r *request, limit *time.Time) error {
	link := c.link()
	conn, err := link.conn(ctx, limit)
	if err != nil {
		return err
	}
	err = conn.request(ctx, r)
	if _, put := r.command.(*put); put && err == nil {
		conn.accepts.Store(true)
	}
	if err != nil && errors.Is(err, ErrDraining) && link.leave(conn) {
		return &notSentError{err}
	}
	return err
}

func (c *conn) request(ctx context.Context, r *request) error {
	call, err := r.build(c)
	if err != nil {
		return err
	}
	if err := c.do(ctx, call); err != nil {
		return err
	}
	return r.end(call)
}

// end reads the reply to a call.
func (r *request) end(call *call) error {
	err := r.accept(&call.reply)
	call.free()
	return err
}
