package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"

	"redstalk/server/access"
)

// This file has the event stream of the console: the first event has all tubes, the later ones
// only the tubes that have changed.

// watcher is a client of that stream. poller.mu guards the changes that were not sent yet.
type watcher struct {
	user    *access.User  // nil means that all tubes are visible
	updates chan struct{} // signals that there is an event to send

	changed map[string]liveTube
	gone    map[string]bool
	problem []byte
}

// watchEvent is an event of the stream.
type watchEvent struct {
	At    int64      `json:"at" doc:"milliseconds since 1970"`
	Tubes []liveTube `json:"tubes" nullable:"false" doc:"all tubes in the first event, then the changed ones"`
	Gone  []string   `json:"gone,omitempty" nullable:"false" doc:"tubes that no longer exist"`
}

// subscribe adds a watcher. Its first event has all tubes.
func (p *poller) subscribe(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.updates, w.changed, w.gone = make(chan struct{}, 1), make(map[string]liveTube, len(p.live)), make(map[string]bool)
	for name, t := range p.live {
		w.changed[name] = t
	}
	if !p.at.IsZero() {
		w.signal()
	}
	p.watchers[w] = struct{}{}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *poller) unsubscribe(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watchers, w)
}

func (w *watcher) signal() {
	select {
	case w.updates <- struct{}{}:
	default:
	}
}

// publish passes changes to the watchers. It signals even if nothing has changed, so that a
// client knows that the stream is alive. The caller holds the mutex.
func (p *poller) publish(changed []liveTube, gone []string) {
	for w := range p.watchers {
		for i := range changed {
			w.changed[changed[i].Name] = changed[i]
			delete(w.gone, changed[i].Name)
		}
		for _, name := range gone {
			w.gone[name] = true
			delete(w.changed, name)
		}
		w.problem = nil
		w.signal()
	}
}

// publishProblem passes the error of a poll to the watchers. The caller holds the mutex.
func (p *poller) publishProblem(err error) {
	text, _ := json.Marshal(problemOf(err)) // strings and numbers can always be encoded
	for w := range p.watchers {
		w.problem = text
		w.signal()
	}
}

// nextEvent returns the event with the changes that a watcher was not sent yet.
func (p *poller) nextEvent(w *watcher) []byte {
	p.mu.Lock()
	problem, changed, gone, at := w.problem, w.changed, w.gone, p.at
	if w.problem = nil; problem == nil {
		w.changed, w.gone = make(map[string]liveTube), make(map[string]bool)
	}
	p.mu.Unlock()
	if problem != nil {
		return slices.Concat([]byte("event: problem\ndata: "), problem, []byte("\n\n"))
	}
	e := watchEvent{At: at.UnixMilli(), Tubes: []liveTube{}}
	for _, name := range w.visible(changed) {
		e.Tubes = append(e.Tubes, changed[name])
	}
	e.Gone = w.visible(gone)
	text, _ := json.Marshal(e) // strings and numbers can always be encoded
	return slices.Concat([]byte("event: tubes\ndata: "), text, []byte("\n\n"))
}

// visible returns the names that the client may read, sorted.
func (w *watcher) visible(of any) (names []string) {
	switch of := of.(type) {
	case map[string]liveTube:
		for name := range of {
			names = append(names, name)
		}
	case map[string]bool:
		for name := range of {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if w.user != nil {
		names = slices.Clone(w.user.Visible(names, access.Read))
	}
	return names
}

// watchOutput documents the event stream.
type watchOutput struct {
	Body watchEvent `contentType:"text/event-stream"`
}

func (api *API) watch(w http.ResponseWriter, r *http.Request) {
	s := api.openStream(w, r)
	if s == nil {
		return
	}
	defer s.end()
	one := &watcher{user: access.UserIn(r.Context())}
	api.poller.subscribe(one)
	defer api.poller.unsubscribe(one)
	for err := s.begin(); err == nil; err = s.sendChanges(api.poller, one) {
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
