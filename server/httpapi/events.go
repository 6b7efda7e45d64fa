package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"redstalk/server/access"
	"redstalk/server/httpserve"
)

// This file has the event streams: server-sent events, for EventSource in browsers.

// eventsInput documents events.
type eventsInput struct {
	Tube []string `query:"tube,explode" maxItems:"1000" doc:"the default is all tubes"`
}

// eventsOutput documents the answer.
type eventsOutput struct {
	Body string `contentType:"text/event-stream"`
}

func (svc *service) events(w http.ResponseWriter, r *http.Request) {
	l, err := svc.subscriberOf(r)
	if err != nil {
		svc.fail(w, r, err)
		return
	}
	s := svc.openStream(w, r)
	if s == nil {
		return
	}
	defer s.end()
	svc.sampler.subscribe(l)
	defer svc.sampler.unsubscribe(l)
	for err = s.begin(); err == nil; err = s.sendSample(l) {
	}
}

// subscriberOf returns the subscriber that a request describes.
func (svc *service) subscriberOf(r *http.Request) (*subscriber, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the query cannot be parsed: %v", err)
	}
	tubes, err := tubesIn(query)
	return &subscriber{tubes: tubes, user: access.UserIn(r.Context()), updates: make(chan *sample, 1)}, err
}

// sendSample waits for the next sample of a subscriber and sends it.
func (s *stream) sendSample(l *subscriber) error {
	select {
	case <-s.ctx.Done():
		return s.ctx.Err()
	case taken := <-l.updates:
		return s.send(taken.event(l))
	}
}

// watchOutput documents the event stream.
type watchOutput struct {
	Body watchEvent `contentType:"text/event-stream"`
}

func (svc *service) watch(w http.ResponseWriter, r *http.Request) {
	s := svc.openStream(w, r)
	if s == nil {
		return
	}
	defer s.end()
	one := &watcher{user: access.UserIn(r.Context())}
	svc.poller.subscribe(one)
	defer svc.poller.unsubscribe(one)
	for err := s.begin(); err == nil; err = s.sendChanges(svc.poller, one) {
	}
}

// sendChanges waits for changes and sends them to a watcher.
func (s *stream) sendChanges(from *poller, to *watcher) error {
	select {
	case <-s.ctx.Done():
		return s.ctx.Err()
	case <-to.updates:
		return s.send(from.nextEvent(to))
	}
}

// eventLimit is how long a client can take to read an event. It misses the events of that time.
// A client that takes longer is disconnected.
const eventLimit = 10 * time.Second

// stream is an answer that consists of server-sent events, for EventSource in browsers.
type stream struct {
	ctx     context.Context // ends with the request, at shutdown, and when the users file changes
	w       http.ResponseWriter
	control *http.ResponseController
	end     func() // releases the stream; must be called
}

// openStream starts an event stream. If the body cannot be read, or too many streams are open,
// it answers with an error and returns nil. A HEAD request gets only the header.
func (svc *service) openStream(w http.ResponseWriter, r *http.Request) *stream {
	if err := readRest(r); err != nil {
		svc.fail(w, r, err)
		return nil
	}
	if r.Method == http.MethodHead {
		setStreamHeader(w.Header())
		return nil
	}
	client := svc.clientOf(r)
	if !svc.streams.Acquire(client) {
		svc.fail(w, r, tooMany("too many event streams are open"))
		return nil
	}
	setStreamHeader(w.Header())
	present, cancel := httpserve.UntilEnding(r)
	ctx, endChange := untilACLChange(present)
	return &stream{ctx: ctx, w: w, control: http.NewResponseController(w), end: func() {
		endChange()
		cancel()
		svc.streams.Release(client)
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
