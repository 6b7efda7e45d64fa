package httpserve

import (
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"redstalk/server/limits"
)

// A client has BodyTimeout to send a body, and one second more for every bodyRate bytes
// received.
const (
	BodyTimeout = 30 * time.Second
	bodyRate    = 64 << 10
)

// timedBody is the body of a request that must arrive in time. The deadline is set before
// the handler runs: net/http also reads what a handler has left of a body. What has arrived
// counts against the limit of all clients together: the body may have to wait for room, or
// to give way.
type timedBody struct {
	io.ReadCloser
	srv      *Server
	length   int64 // as announced; -1: unknown
	deadline func(time.Time) error
	began    time.Time
	read     int64
	whole    bool
	extended int64 // the bytes read, in whole bodyRate, when the deadline was last extended

	arrival *limits.Arrival // nil while little has arrived
	resumed chan struct{}   // receives when there is room again

	mu      sync.Mutex // guards the fields below
	ended   bool       // the handler has ended
	gaveWay bool       // it had to give way
}

func newTimedBody(w http.ResponseWriter, r *http.Request, d *Server) *timedBody {
	b := &timedBody{
		ReadCloser: r.Body, srv: d, length: r.ContentLength,
		deadline: http.NewResponseController(w).SetReadDeadline, began: time.Now(),
	}
	b.extendDeadline()
	return b
}

// Read implements io.Reader. A body that arrives too slowly, or has to give way, ends with
// os.ErrDeadlineExceeded.
func (b *timedBody) Read(p []byte) (int, error) {
	if b.read > limits.Uncounted && !b.whole && !b.waitForRoom() {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	b.arrival.Received(uint64(b.read))
	switch {
	case err == io.EOF:
		b.deadline(time.Time{}) // the client may now wait for the answer
		b.arrival.End()
		b.whole = true
	case b.read/bodyRate > b.extended:
		b.extendDeadline()
	}
	return n, err
}

// extendDeadline sets the deadline according to what was read.
func (b *timedBody) extendDeadline() {
	b.extended = b.read / bodyRate
	b.deadline(b.began.Add(BodyTimeout + time.Duration(b.extended)*time.Second))
}

// waitForRoom waits until there is room for more, for at most BodyTimeout.
func (b *timedBody) waitForRoom() bool {
	if b.resumed == nil {
		b.resumed = make(chan struct{}, 1)
		b.arrival = b.srv.config.Limits.Arrive(func() { b.resumed <- struct{}{} }, b.giveWay)
	}
	b.mu.Lock()
	gaveWay := b.gaveWay
	b.mu.Unlock()
	if gaveWay || b.arrival.Reserve(b.read, b.length) {
		return !gaveWay
	}
	b.deadline(time.Time{}) // the delay is not the client's
	began := time.Now()
	limit := time.NewTimer(BodyTimeout)
	defer limit.Stop()
	select {
	case <-b.resumed:
		b.began = b.began.Add(time.Since(began))
		b.extendDeadline()
		return true
	case <-limit.C:
		return false
	}
}

// giveWay ends the body because others need its memory.
func (b *timedBody) giveWay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gaveWay = true; !b.ended {
		b.srv.slowBodies.Warn(b.srv.log, "bodies that arrived slowly were given up, because others waited for their memory")
		b.deadline(time.Unix(1, 0))
	}
}

// end ends the reading, when the handler has ended.
func (b *timedBody) end() {
	b.arrival.End()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}
