package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

// retryPause is how long a client waits before it reconnects, or repeats a refused
// put.
const retryPause = 5 * time.Millisecond

// outcome is how a command ended.
type outcome int

const (
	unknown outcome = iota // no reply, so it is unknown whether it was executed
	refused                // the reply says that it was not
	done
)

// client is a connection that is made again whenever it fails. It is owned by one
// goroutine.
type client struct {
	ledger     *Ledger
	rng        *rand.Rand
	addr       int              // index of the next address
	at         string           // address of the last connection
	holds      map[*entry]*hold // what the connection has reserved; with the ledger's lock
	unfinished []*entry         // of these, those that it has done nothing with yet
	ending     bool             // it is about to be interrupted; with the ledger's lock

	conn  *beanstalk.Conn // nil while there is none
	wire  *wire           // below conn
	in    *bufio.Reader   // of wire, for packets of many commands
	since time.Time       // of the first try that has no reply yet; zero if there is none
	asked []string        // where it has asked since then
}

// wire records that reading has failed: the client library would take a line that
// was cut off for a whole one, such as INSERTED 12 from INSERTED 123.
type wire struct {
	net.Conn
	failed bool
	cut    atomic.Bool // by us
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.failed = w.failed || err != nil
	return n, err
}

// interrupt ends reads and writes of the connection, from another goroutine.
func (w *wire) interrupt() {
	w.cut.Store(true)
	w.Conn.Close()
}

func (l *Ledger) newClient() *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients++
	return &client{ledger: l, rng: rand.New(rand.NewPCG(l.config.Seed, uint64(l.clients))), addr: l.clients, holds: make(map[*entry]*hold)}
}

// connect makes a connection unless there is one; false if ctx is done first.
func (c *client) connect(ctx context.Context) bool {
	for c.conn == nil && ctx.Err() == nil {
		c.asking()
		if err := c.dial(ctx); err != nil {
			pause(ctx)
		}
	}
	return ctx.Err() == nil
}

func pause(ctx context.Context) { sleep(ctx, retryPause) }

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

var errSelf = errors.New("connected to itself")

func (c *client) dial(ctx context.Context) error {
	addr := c.ledger.config.Addrs[c.addr%len(c.ledger.config.Addrs)]
	c.addr++
	network := "tcp"
	if strings.Contains(addr, "/") {
		network = "unix"
	}
	dialer := net.Dialer{Timeout: c.ledger.config.Patience}
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return err
	}
	// Where nobody listens on a port that the system also gives to clients,
	// a connection may get that very port and meet itself.
	if network == "tcp" && conn.LocalAddr().String() == conn.RemoteAddr().String() {
		conn.Close()
		return errSelf
	}
	c.at = addr
	if !slices.Contains(c.asked, addr) {
		c.asked = append(c.asked, addr)
	}
	c.wire = &wire{Conn: conn}
	c.conn, c.in = beanstalk.NewConn(c.wire), bufio.NewReader(c.wire)
	return nil
}

// close ends the connection, and with it the reservations.
func (c *client) close() {
	if c.conn != nil {
		c.releaseAll(false)
		c.unfinished = nil
		c.conn.Close()
		c.conn = nil
	}
}

// asking records that a reply is pending from now on.
func (c *client) asking() {
	if c.since.IsZero() {
		c.since, c.asked = time.Now(), []string{c.at}
		c.ledger.mu.Lock()
		defer c.ledger.mu.Unlock()
		c.ledger.asking[c] = c.since
	}
}

// replied records that the server has answered. It was allowed to be late
// by wait.
func (c *client) replied(wait time.Duration) {
	silence := time.Since(c.since) - wait
	c.since = time.Time{}
	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.asking, c)
	l.report.LongestUnanswered = max(l.report.LongestUnanswered, silence)
	where := strings.Join(c.asked, " ")
	l.unanswered[where] = max(l.unanswered[where], silence)
}

// retire ends the client.
func (c *client) retire() {
	c.close()
	if !c.since.IsZero() {
		c.replied(0)
	}
}

// ask runs one exchange on the connection, whose reply may take longer than usual by
// wait. The error is the server's, if there is one.
func (c *client) ask(wait time.Duration, exchange func(*beanstalk.Conn) error) (outcome, error) {
	c.asking()
	c.wire.SetDeadline(time.Now().Add(c.ledger.config.Patience + wait))
	err := exchange(c.conn)
	if c.wire.failed {
		c.disconnect()
		return unknown, net.ErrClosed
	}
	end := judge(err)
	switch {
	case end != unknown:
		c.replied(wait)
	case errors.Is(err, beanstalk.ErrInternal):
		c.ledger.count(func(r *Report) { r.InternalErrors++ })
	default:
		c.disconnect()
		if _, network := errors.AsType[*net.OpError](err); !network {
			c.ledger.garbled(err)
		}
	}
	return end, err
}

// disconnect gives up a failed connection.
func (c *client) disconnect() {
	if !c.wire.cut.Load() {
		c.ledger.count(func(r *Report) { r.Broken++ })
	}
	c.close()
}

// judge returns whether the command was executed, from its error.
func judge(err error) outcome {
	if err == nil {
		return done
	}
	for _, reply := range []error{
		beanstalk.ErrNotFound, beanstalk.ErrTimeout, beanstalk.ErrDeadline,
		beanstalk.ErrOOM, beanstalk.ErrDraining, beanstalk.ErrJobTooBig,
	} {
		if errors.Is(err, reply) {
			return refused
		}
	}
	return unknown
}

// garbled counts a reply that is malformed, or does not belong to the command.
func (l *Ledger) garbled(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault(&l.report.Garbled, "a reply makes no sense: %v", err)
}

// statsTube returns the number of jobs in a tube, in all states.
func (c *client) statsTube(name string) (n int, end outcome) {
	var page map[string]string
	end, err := c.ask(0, func(conn *beanstalk.Conn) (err error) {
		page, err = beanstalk.NewTube(conn, name).Stats()
		return err
	})
	if errors.Is(err, beanstalk.ErrNotFound) {
		return 0, done
	}
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		var jobs int
		fmt.Sscan(page["current-jobs-"+state], &jobs)
		n += jobs
	}
	return n, end
}
