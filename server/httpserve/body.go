package httpserve

import (
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"redstalk/server/limits"
)

// A client has BodyTimeout to send a body, and a second more for every bodyRate bytes that
// have come.
const (
	BodyTimeout = 30 * time.Second
	bodyRate    = 64 << 10
)

// timedBody is the body of a request that has to come in time. The limit is set before
// the handler runs: net/http also reads what a handler has left of a body. What has come of it
// is bounded over all clients: it may have to wait for room, or to give way.
type timedBody struct {
	io.ReadCloser
	door     *Door
	length   int64 // as the client says; -1: it does not
	deadline func(time.Time) error
	began    time.Time
	read     int64
	whole    bool
	step     int64 // the bytes read, in whole bodyRate, when the limit was last moved

	arrival *limits.Arrival // nil while little has come
	room    chan struct{}   // gets one when there is room again

	mu    sync.Mutex // guards what follows
	ended bool       // the handler reads no more
	gave  bool       // it had to give way
}

func newTimedBody(w http.ResponseWriter, r *http.Request, d *Door) *timedBody {
	b := &timedBody{
		ReadCloser: r.Body, door: d, length: r.ContentLength,
		deadline: http.NewResponseController(w).SetReadDeadline, began: time.Now(),
	}
	b.move()
	return b
}

// Read implements io.Reader. A body that comes too slowly, or had to give way, ends with
// os.ErrDeadlineExceeded.
func (b *timedBody) Read(p []byte) (int, error) {
	if b.read > limits.Uncounted && !b.whole && !b.mayGoOn() {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	b.arrival.Came(uint64(b.read))
	switch {
	case err == io.EOF:
		b.deadline(time.Time{}) // whoever waits for the answer may take its time
		b.arrival.End()
		b.whole = true
	case b.read/bodyRate > b.step:
		b.move()
	}
	return n, err
}

// move moves the limit to where it has to be by what was read.
func (b *timedBody) move() {
	b.step = b.read / bodyRate
	b.deadline(b.began.Add(BodyTimeout + time.Duration(b.step)*time.Second))
}

// mayGoOn waits until there is room for more, for BodyTimeout at most.
func (b *timedBody) mayGoOn() bool {
	if b.room == nil {
		b.room = make(chan struct{}, 1)
		b.arrival = b.door.config.Bounds.Arrive(func() { b.room <- struct{}{} }, b.giveWay)
	}
	b.mu.Lock()
	gave := b.gave
	b.mu.Unlock()
	if gave || b.arrival.Reserve(b.read, b.length) {
		return !gave
	}
	b.deadline(time.Time{}) // it is not the client that takes its time
	began := time.Now()
	limit := time.NewTimer(BodyTimeout)
	defer limit.Stop()
	select {
	case <-b.room:
		b.began = b.began.Add(time.Since(began))
		b.move()
		return true
	case <-limit.C:
		return false
	}
}

// giveWay ends the body, whose memory others need.
func (b *timedBody) giveWay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gave = true; !b.ended {
		b.door.slowBodies.Warn(b.door.log, "bodies were given up that came slowly, while others waited for their memory")
		b.deadline(time.Unix(1, 0))
	}
}

// end ends the reading. The handler has ended.
func (b *timedBody) end() {
	b.arrival.End()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}
