package transcript

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"redstalk/tools/conformance/answer"
)

// A link is one connection to the server under test. A goroutine
// reads and timestamps its bytes, so that a reply's time does not depend on when
// the player reads it.
type link struct {
	name     string
	conn     net.Conn
	lastSend time.Time
	done     chan struct{} // closed when the reader has ended
	news     chan struct{} // holds a token when something has come

	mu     sync.Mutex
	buf    []byte  // received and not yet taken
	stamps []stamp // when the bytes of buf came
	eof    error   // why the reader ended
	eofAt  time.Time
}

// A stamp reports that the bytes of buf before end had come at the time at.
type stamp struct {
	end int
	at  time.Time
}

// A reply is one answer of the server, and when its last byte came.
type reply struct {
	answer.Reply
	at time.Time
}

func newLink(name string, conn net.Conn) *link {
	l := &link{name: name, conn: conn, lastSend: time.Now(), done: make(chan struct{}), news: make(chan struct{}, 1)}
	go l.read()
	return l
}

func (l *link) read() {
	defer close(l.done)
	chunk := make([]byte, 64<<10)
	for {
		n, err := l.conn.Read(chunk)
		now := time.Now()
		l.mu.Lock()
		if n > 0 {
			l.buf = append(l.buf, chunk[:n]...)
			l.stamps = append(l.stamps, stamp{len(l.buf), now})
		}
		l.eof, l.eofAt = err, now
		l.mu.Unlock()
		select {
		case l.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// close ends the connection and its goroutine.
func (l *link) close() {
	_ = l.conn.Close()
	<-l.done
}

// unread returns the bytes that were received and not taken.
func (l *link) unread() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.buf)
}

// ended reports whether the server has closed the connection, and when.
func (l *link) ended() (bool, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.eof != nil, l.eofAt
}

// take removes the first reply, if it is complete.
func (l *link) take() (reply, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut, n, err := answer.Cut(l.buf)
	r := reply{Reply: cut}
	if n == 0 || err != nil {
		return r, false, err
	}
	for i, s := range l.stamps {
		if s.end >= n {
			r.at = s.at
			l.stamps = l.stamps[i:]
			break
		}
	}
	for i := range l.stamps {
		l.stamps[i].end -= n
	}
	l.buf = l.buf[n:]
	return r, true, nil
}

// whole reports whether a reply is complete, or can never be.
func (l *link) whole() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, n, err := answer.Cut(l.buf)
	return n > 0 || err != nil
}

// until waits until ok, the deadline or the connection's end. It returns only
// the context's error.
func (l *link) until(ctx context.Context, deadline time.Time, ok func() bool) error {
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	for !ok() {
		select {
		case <-l.news:
		case <-l.done:
			return nil
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// closeWrite shuts down the sending side.
func (l *link) closeWrite() error {
	if c, ok := l.conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return fmt.Errorf("%T cannot be half-closed", l.conn)
}

// reset makes the next close send an RST, if the network has that.
func (l *link) reset() error {
	if c, ok := l.conn.(*net.TCPConn); ok {
		return c.SetLinger(0)
	}
	return nil
}

// send writes, giving up after the time given.
func (l *link) send(data []byte, limit time.Duration) error {
	if err := l.conn.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	_, err := io.Copy(l.conn, bytes.NewReader(data))
	return err
}
