package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"redstalk/server/httpserve"
)

// stream is an answer that goes on: events, in the form that a browser's EventSource takes.
type stream struct {
	ctx     context.Context // ends with the request, the door, and when the file of users changes
	w       http.ResponseWriter
	control *http.ResponseController
	end     func() // must be called
}

// openStream prepares an answer of events. It answers with an error, and returns nil, if the
// body cannot be read, or too many clients listen already; a HEAD is answered without events.
func (d *Door) openStream(w http.ResponseWriter, r *http.Request) *stream {
	if err := readRest(r); err != nil {
		d.fail(w, r, err)
		return nil
	}
	if r.Method == http.MethodHead {
		setStreamHeader(w.Header())
		return nil
	}
	who := d.clientOf(r)
	if !d.streams.take(who) {
		d.fail(w, r, tooMany("too many clients listen already"))
		return nil
	}
	setStreamHeader(w.Header())
	present, cancel := httpserve.UntilEnding(r)
	ctx, endChange := untilChange(present)
	return &stream{ctx: ctx, w: w, control: http.NewResponseController(w), end: func() {
		endChange()
		cancel()
		d.streams.leave(who)
	}}
}

func setStreamHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies are to pass events on as they come
}

// begin tells the client that events will follow.
func (s *stream) begin() error { return s.control.Flush() }

// send sends an event to the client, which may take eventLimit to read it.
func (s *stream) send(event []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(eventLimit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(event); err != nil {
		return err
	}
	return s.control.Flush()
}
