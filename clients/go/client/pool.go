package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A link is one connection of the pool. It connects when it is needed, and again when it was
// lost.
type link struct {
	client *Client
	live   atomic.Pointer[conn]

	mu       sync.Mutex
	attempt  *attempt // to connect, while it is under way
	failures int      // in succession
}

// An attempt is one try to connect, for which any number of calls can wait.
type attempt struct {
	done chan struct{} // closed when conn or err is set
	conn *conn
	err  error
}

// The first and the longest wait between attempts to connect. It doubles, and a part of it is random.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 2 * time.Second
)

// pause returns how long to wait after so many failures in succession.
func pause(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	d := min(firstPause<<min(failures-1, 10), longestPause)
	return d/2 + rand.N(d/2)
}

// conn returns a connection, and waits for one until limit at most, which it sets if it is zero. An error is
// a notSentError.
func (l *link) conn(ctx context.Context, limit *time.Time) (*conn, error) {
	if c := l.live.Load(); c != nil && c.alive() {
		return c, nil
	}
	if limit.IsZero() {
		*limit = time.Now().Add(l.client.opts.wait)
	}
	var last error
	over := time.NewTimer(time.Until(*limit))
	defer over.Stop()
	for {
		a := l.connect()
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, &notSentError{withReason(context.Cause(ctx), last)}
		case <-over.C:
			return nil, &notSentError{withReason(ErrUnavailable, last)}
		}
		if a.err == nil {
			return a.conn, nil
		}
		if last = a.err; permanent(last) {
			return nil, &notSentError{last}
		}
	}
}

// leave makes the link connect to another server, since the one of conn accepts no puts. It returns false if no other
// is likely to. An address can lead to several servers, so if conn has accepted puts before, a new one to the same address can.
func (l *link) leave(conn *conn) bool {
	if others := l.client.addrs.failed(conn.addr); !others && !conn.accepts.Load() {
		return false
	}
	if l.live.CompareAndSwap(conn, nil) {
		conn.retire()
	}
	return true
}

// permanent reports whether an error of an attempt would come again.
func permanent(err error) bool {
	var cert *tls.CertificateVerificationError
	return errors.As(err, &cert) || errors.Is(err, ErrClosed) || errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnsupported)
}

// withReason adds to an error why there was no connection, if that is known.
func withReason(err, reason error) error {
	if reason == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", err, reason)
}

// connect returns the attempt that is under way, or starts one.
func (l *link) connect() *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.attempt == nil {
		l.attempt = &attempt{done: make(chan struct{})}
		wait := pause(l.failures)
		if !l.client.spawn(func() { l.try(l.attempt, wait) }) {
			l.attempt.err = ErrClosed
			close(l.attempt.done)
		}
	}
	return l.attempt
}

// try makes an attempt after a wait.
func (l *link) try(a *attempt, wait time.Duration) {
	if c := l.live.Load(); c != nil && c.alive() { // of an attempt that ended meanwhile
		a.conn = c
	} else if a.err = sleep(l.client.ctx, wait); a.err == nil {
		a.conn, a.err = l.client.dial(l.client.ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures++; a.err == nil {
		l.failures = 0
		l.live.Store(a.conn)
	}
	l.attempt = nil
	close(a.done)
}

// sleep waits for d, or returns why the context ended.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
