package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"redstalk/server/access"
)

// This file has the stream that a console listens to: first how all tubes are, then only those
// that have changed.

// watcher is a client of that stream. What it has not been sent yet is guarded by history.mu.
type watcher struct {
	user *access.User  // who may see only some tubes; nil: all
	news chan struct{} // there is something to send

	changed map[string]liveTube
	gone    map[string]bool
	problem []byte
}

// watchEvent is an event of the stream.
type watchEvent struct {
	At    int64      `json:"at" doc:"milliseconds since 1970"`
	Tubes []liveTube `json:"tubes" nullable:"false" doc:"in the first event all, then those that have changed"`
	Gone  []string   `json:"gone,omitempty" nullable:"false" doc:"tubes that are not there any more"`
}

// join adds a watcher, whose first event has all tubes.
func (h *history) join(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.news, w.changed, w.gone = make(chan struct{}, 1), make(map[string]liveTube, len(h.live)), make(map[string]bool)
	for name, t := range h.live {
		w.changed[name] = t
	}
	if !h.at.IsZero() {
		w.signal()
	}
	h.watchers[w] = struct{}{}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *history) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}

func (w *watcher) signal() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// tell notes for those who watch what has changed. It also signals if nothing has: so a client
// knows that it still hears of everything. The caller has h.mu.
func (h *history) tell(changed []liveTube, gone []string) {
	for w := range h.watchers {
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

// tellProblem is tell for a look that failed.
func (h *history) tellProblem(err error) {
	text, _ := json.Marshal(problemOf(err)) // strings and numbers have JSON
	for w := range h.watchers {
		w.problem = text
		w.signal()
	}
}

// take returns the event that a watcher is to be sent.
func (h *history) take(w *watcher) []byte {
	h.mu.Lock()
	problem, changed, gone, at := w.problem, w.changed, w.gone, h.at
	if w.problem = nil; problem == nil {
		w.changed, w.gone = make(map[string]liveTube), make(map[string]bool)
	}
	h.mu.Unlock()
	if problem != nil {
		return slices.Concat([]byte("event: problem\ndata: "), problem, []byte("\n\n"))
	}
	e := watchEvent{At: at.UnixMilli(), Tubes: []liveTube{}}
	for _, name := range w.visible(changed) {
		e.Tubes = append(e.Tubes, changed[name])
	}
	e.Gone = w.visible(gone)
	text, _ := json.Marshal(e) // strings and numbers have JSON
	return slices.Concat([]byte("event: tubes\ndata: "), text, []byte("\n\n"))
}

// visible returns the names that the client may see, sorted.
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

// watchOutput documents the stream.
type watchOutput struct {
	Body watchEvent `contentType:"text/event-stream"`
}

func (d *Door) watch(w http.ResponseWriter, r *http.Request) {
	s := d.openStream(w, r)
	if s == nil {
		return
	}
	defer s.end()
	one := &watcher{user: access.UserIn(r.Context())}
	d.history.join(one)
	defer d.history.leave(one)
	for err := s.begin(); err == nil; err = s.sendNews(d.history, one) {
	}
}

// sendNews waits for news for a watcher, and sends them.
func (s *stream) sendNews(from *history, to *watcher) error {
	select {
	case <-s.ctx.Done():
		return s.ctx.Err()
	case <-to.news:
		return s.send(from.take(to))
	}
}

type chartsOutput struct{ Body chartsInfo }

// chartsInfo are the charts of several tubes.
type chartsInfo struct {
	EveryMS int64                `json:"every_ms" doc:"between two points"`
	Tubes   map[string]chartInfo `json:"tubes" nullable:"false"`
}

// chartInfo is the chart of a tube: the last point is the latest.
type chartInfo struct {
	End      int64     `json:"end" doc:"the time of the last point, milliseconds since 1970"`
	Ready    []uint32  `json:"ready" nullable:"false"`
	Reserved []uint32  `json:"reserved,omitempty" nullable:"false"`
	Delayed  []uint32  `json:"delayed,omitempty" nullable:"false"`
	Buried   []uint32  `json:"buried,omitempty" nullable:"false"`
	Puts     []float32 `json:"put_rate,omitempty" nullable:"false" doc:"a second"`
	Deletes  []float32 `json:"delete_rate,omitempty" nullable:"false" doc:"a second"`
}

type chartsInput struct {
	Points uint64 `query:"points" minimum:"1" maximum:"360" default:"60" doc:"the last ones"`
}

// charts returns the ready jobs of all tubes that have a chart.
func (d *Door) charts(ctx context.Context, in *chartsInput) (*chartsOutput, error) {
	h := d.history
	h.mu.Lock()
	defer h.mu.Unlock()
	info := chartsInfo{EveryMS: pointEvery.Milliseconds(), Tubes: make(map[string]chartInfo)}
	for _, name := range visible(ctx, h.order) {
		c := h.charts[name]
		if c == nil {
			continue
		}
		one := chartInfo{End: c.last.UnixMilli(), Ready: []uint32{}}
		points := c.all()
		for _, p := range points[max(0, len(points)-int(in.Points)):] {
			one.Ready = append(one.Ready, p.ready)
		}
		info.Tubes[name] = one
	}
	return &chartsOutput{info}, nil
}

// chart returns all that the chart of one tube has.
func (d *Door) chart(_ context.Context, in *TubePath) (*chartsOutput, error) {
	h := d.history
	h.mu.Lock()
	defer h.mu.Unlock()
	info := chartsInfo{EveryMS: pointEvery.Milliseconds(), Tubes: make(map[string]chartInfo)}
	if c := h.charts[in.Tube]; c != nil {
		one := chartInfo{End: c.last.UnixMilli(), Ready: []uint32{}}
		for _, p := range c.all() {
			one.Ready, one.Reserved = append(one.Ready, p.ready), append(one.Reserved, p.reserved)
			one.Delayed, one.Buried = append(one.Delayed, p.delayed), append(one.Buried, p.buried)
			one.Puts, one.Deletes = append(one.Puts, p.puts), append(one.Deletes, p.deletes)
		}
		info.Tubes[in.Tube] = one
	}
	return &chartsOutput{info}, nil
}

type callerOutput struct{ Body callerInfo }

// callerInfo is who sends a request, and what they may do.
type callerInfo struct {
	User       string   `json:"user,omitempty" doc:"empty if there are no users"`
	Anonymous  bool     `json:"anonymous,omitempty" doc:"there are users, and the caller has not said which one it is"`
	Everywhere []string `json:"everywhere" nullable:"false" doc:"rights on all tubes, and on the instance"`
	Somewhere  []string `json:"somewhere" nullable:"false" doc:"rights on at least one tube"`

	Tubes map[string][]string `json:"tubes,omitempty" nullable:"false" doc:"rights on the tubes that were named"`
}

type callerInput struct {
	Tube []string `query:"tube,explode" maxItems:"1000" doc:"to be told the rights on"`
}

func (d *Door) caller(ctx context.Context, in *callerInput) (*callerOutput, error) {
	info := callerInfo{Everywhere: wordsOf(access.All), Somewhere: wordsOf(access.All)}
	on := func(string) access.Right { return access.All }
	if u := access.UserIn(ctx); u != nil {
		info.User, info.Anonymous, on = u.Name(), u == d.config.Access.Anonymous(), u.On
		info.Everywhere, info.Somewhere = wordsOf(u.Everywhere()), wordsOf(u.Anywhere())
	}
	if len(in.Tube) > 0 {
		info.Tubes = make(map[string][]string, len(in.Tube))
	}
	for _, name := range in.Tube {
		info.Tubes[name] = wordsOf(on(name))
	}
	return &callerOutput{info}, nil
}

// wordsOf returns the words for rights.
func wordsOf(all access.Right) []string {
	words := []string{}
	for _, r := range []Right{Put, Work, Read, Admin} {
		if all&rights[r] != 0 {
			words = append(words, string(r))
		}
	}
	return words
}
