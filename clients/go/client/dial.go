package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// addresses are the servers of one cluster of instances, in a random order so that many
// clients spread over them.
type addresses struct {
	all []string

	mu    sync.Mutex
	avoid map[string]time.Time // until when, after a failure
}

// avoidance is how long an address that failed is tried only after the others.
const avoidance = 10 * time.Second

func newAddresses(list string) *addresses {
	a := &addresses{all: strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }), avoid: map[string]time.Time{}}
	rand.Shuffle(len(a.all), func(i, j int) { a.all[i], a.all[j] = a.all[j], a.all[i] })
	return a
}

// order returns the addresses in the order in which they should be tried.
func (a *addresses) order() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	order := slices.Clone(a.all)
	slices.SortStableFunc(order, func(x, y string) int {
		return cmp.Compare(max(a.avoid[x].Sub(now), 0), max(a.avoid[y].Sub(now), 0))
	})
	return order
}

// failed makes addr be tried only after the others for a while. It reports whether there is another one that has not
// failed recently.
func (a *addresses) failed(addr string) (others bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.avoid[addr] = now.Add(avoidance)
	return slices.ContainsFunc(a.all, func(other string) bool { return !a.avoid[other].After(now) })
}

// dial connects to the first address that answers.
func (c *Client) dial(ctx context.Context) (*conn, error) {
	var errs []error
	for _, addr := range c.addrs.order() {
		conn, err := c.dialOne(ctx, addr)
		if err == nil {
			c.opts.logger.Debug("connected", "addr", addr)
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c.addrs.failed(addr)
		errs = append(errs, fmt.Errorf("connecting to %s: %w", addr, err))
	}
	if len(errs) == 0 {
		return nil, invalid("no address")
	}
	return nil, errors.Join(errs...)
}

// dialOne connects to an address, authenticates and asks for the capabilities.
func (c *Client) dialOne(ctx context.Context, addr string) (*conn, error) {
	ctx, stop := context.WithTimeout(ctx, c.opts.dialTimeout)
	defer stop()
	var d interface {
		DialContext(context.Context, string, string) (net.Conn, error)
	} = new(net.Dialer)
	if c.opts.tls != nil {
		d = &tls.Dialer{Config: c.opts.tls}
	}
	network, at := "tcp", addr
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, at = "unix", path
	}
	nc, err := d.DialContext(ctx, network, at)
	if err != nil {
		return nil, err
	}
	release := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	conn := newConn(nc, addr, c.opts.replyTimeout)
	if err = conn.handshake(&c.opts); err == nil && !release() {
		err = context.Cause(ctx)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return conn, c.adopt(conn)
}

// handshake authenticates, names the connection and asks for the capabilities, in one round trip.
func (c *conn) handshake(o *options) error {
	if !printable(o.name) {
		return invalid("name %q", o.name)
	}
	commands := []string{"capabilities"}
	if o.name != "" {
		commands = append([]string{"client " + o.name}, commands...)
	}
	if o.user != "" {
		commands = append([]string{"auth " + o.user + " " + o.secret}, commands...)
	}
	if _, err := c.net.Write([]byte(strings.Join(commands, "\r\n") + "\r\n")); err != nil {
		return err
	}
	for _, command := range commands {
		if err := c.handshakeReply(command); err != nil {
			return err
		}
	}
	return nil
}

// handshakeReply reads the reply to a command of the handshake. What a server does not know is no error, except auth.
func (c *conn) handshakeReply(command string) error {
	line, err := c.in.ReadSlice('\n')
	var reply Reply
	if err == nil {
		err = readReply(c.in, line, &reply)
	}
	verb, _, _ := strings.Cut(command, " ")
	unknown := reply.Word == "UNKNOWN_COMMAND"
	switch {
	case err != nil:
		return err
	case verb == "auth" && unknown:
		return &UnsupportedError{Feature: "auth"}
	case verb == "auth":
		return reply.expect("AUTHENTICATED")
	case unknown:
		return nil
	case verb == "client":
		return reply.expect("NAMED")
	}
	c.caps = parseCapabilities(reply.Body)
	return reply.expect("OK")
}
