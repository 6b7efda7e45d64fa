package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"redstalk/server/httpserve"
)

// stream is an answer that consists of server-sent events, for EventSource in browsers.
type stream struct {
	ctx     context.Context // ends with the request, at shutdown, and when the users file changes
	w       http.ResponseWriter
	control *http.ResponseController
	end     func() // releases the stream; must be called
}

// openStream starts an event stream. If the body cannot be read, or too many streams are open,
// it answers with an error and returns nil. A HEAD request gets only the header.
func (api *API) openStream(w http.ResponseWriter, r *http.Request) *stream {
	if err := readRest(r); err != nil {
		api.fail(w, r, err)
		return nil
	}
	if r.Method == http.MethodHead {
		setStreamHeader(w.Header())
		return nil
	}
	client := api.clientOf(r)
	if !api.streams.acquire(client) {
		api.fail(w, r, tooMany("too many event streams are open"))
		return nil
	}
	setStreamHeader(w.Header())
	present, cancel := httpserve.UntilEnding(r)
	ctx, endChange := untilACLChange(present)
	return &stream{ctx: ctx, w: w, control: http.NewResponseController(w), end: func() {
		endChange()
		cancel()
		api.streams.release(client)
	}}
}

func setStreamHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies must not buffer events
}

// begin sends the header.
func (s *stream) begin() error { return s.control.Flush() }

// send sends an event to the client, which has eventLimit to read it.
func (s *stream) send(event []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(eventLimit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(event); err != nil {
		return err
	}
	return s.control.Flush()
}
