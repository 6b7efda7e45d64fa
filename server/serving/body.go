package serving

import (
	"io"
	"net/http"
	"time"
)

// A client has BodyTimeout to send a body, and a second more for every bodyRate bytes that
// have come.
const (
	BodyTimeout = 30 * time.Second
	bodyRate    = 64 << 10
)

// timedBody is the body of a request that has to come in time. The limit is set before
// the handler runs: net/http also reads what a handler has left of a body.
type timedBody struct {
	io.ReadCloser
	deadline func(time.Time) error
	began    time.Time
	read     int64
	step     int64 // the bytes read, in whole bodyRate, when the limit was last moved
}

func newTimedBody(w http.ResponseWriter, body io.ReadCloser) *timedBody {
	b := &timedBody{ReadCloser: body, deadline: http.NewResponseController(w).SetReadDeadline, began: time.Now()}
	b.move()
	return b
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	switch {
	case err == io.EOF:
		b.deadline(time.Time{}) // whoever waits for the answer may take its time
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
