package httpapi

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"redstalk/server/queue"
	"redstalk/tube"
)

// This file polls all tubes: every second while there are watchers, and otherwise every
// pointEvery, for the charts of the last hour. The charts are in memory only.

// idleFactor is the pause after a poll as a multiple of its duration, so that polling very many
// tubes takes at most a tenth of the store's time.
const idleFactor = 9

// poller polls all tubes for the charts and for the watchers of an API.
type poller struct {
	queue *queue.Queue
	now   func() time.Time

	mu       sync.Mutex // guards the fields below, and what they point to
	live     map[string]liveTube
	order    []string  // names in live, sorted
	at       time.Time // when live was current
	history  history
	watchers watchers
	reasons  map[string]reason // of pauses, by tube

	wake chan struct{} // signals a new watcher
	stop context.CancelFunc
	done chan struct{}
}

func newPoller(q *queue.Queue) *poller {
	return &poller{
		queue: q, now: time.Now, live: make(map[string]liveTube), history: history{charts: make(map[string]*chart)}, watchers: make(watchers), reasons: make(map[string]reason), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// start starts polling, until close.
func (p *poller) start() {
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	go p.run(ctx)
}

func (p *poller) close() {
	p.stop()
	<-p.done
}

func (p *poller) run(ctx context.Context) {
	defer close(p.done)
	for ctx.Err() == nil {
		elapsed := p.poll(ctx)
		rest := pointEvery
		if p.watched() {
			rest = sampleEvery
		}
		timer := time.NewTimer(max(rest-elapsed, elapsed*idleFactor, 0))
		select {
		case <-timer.C:
		case <-p.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (p *poller) watched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.watchers) > 0
}

// poll gets the counts of all tubes and publishes them to the watchers. It returns how long it
// took.
func (p *poller) poll(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, sampleLimit)
	defer cancel()
	began := p.now()
	names, err := p.queue.Tubes(ctx)
	var all []*tube.TubeStats
	if err == nil {
		all, err = tubeStats(ctx, p.queue, names)
	}
	p.record(all, err, began, p.now())
	return p.now().Sub(began)
}

// record stores the result of a poll that began and ended at the given times.
func (p *poller) record(all []*tube.TubeStats, err error, began, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.watchers.publishProblem(err)
		return
	}
	passed := now.Sub(p.at)
	live, order := make(map[string]liveTube, len(all)), make([]string, 0, len(all))
	var changed []liveTube
	for _, s := range all {
		before, was := p.live[s.Name]
		one := liveTubeOf(s, before, was, passed, now)
		if one.Until > 0 {
			one.Reason = p.reasons[s.Name].text
		}
		if live[s.Name], order = one, append(order, s.Name); one != before || !was {
			changed = append(changed, one)
		}
	}
	var gone []string
	for _, name := range p.order {
		if _, ok := live[name]; !ok {
			gone = append(gone, name)
		}
	}
	slices.Sort(order)
	p.live, p.order, p.at = live, order, now
	for name, r := range p.reasons {
		if live[name].Until == 0 && r.at.Before(began) {
			delete(p.reasons, name)
		}
	}
	p.history.add(order, live, now)
	p.watchers.publish(changed, gone)
}

// reason is why a tube was paused.
type reason struct {
	text string
	at   time.Time
}

// paused stores why a tube was paused. At most maxCharted tubes have reasons.
func (p *poller) paused(name, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, has := p.reasons[name]; has || len(p.reasons) < maxCharted {
		p.reasons[name] = reason{why, p.now()}
	}
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
