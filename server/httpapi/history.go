package httpapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"redstalk/server/queue"
	"redstalk/tube"
)

// This file looks at all tubes now and then: every second while somebody watches them, and
// every pointEvery for the charts of the last hour, which are kept in memory.

const (
	// pointEvery is the time between two points of a chart, and maxPoints how many there
	// are: an hour.
	pointEvery = 10 * time.Second
	maxPoints  = 360

	// maxCharted is how many tubes have charts. A chart takes 24 bytes a point, so all of
	// them take at most 9 MB.
	maxCharted = 1000

	// restFactor is how many times as long as a look took nobody looks again, so that
	// very many tubes cost at most a tenth of the store's time.
	restFactor = 9
)

// liveTube is what is shown of a tube all the time. What does not change is equal from one
// look to the next, so that it need not be sent again.
type liveTube struct {
	Name     string  `json:"name"`
	Ready    uint64  `json:"ready"`
	Urgent   uint64  `json:"urgent"`
	Reserved uint64  `json:"reserved"`
	Delayed  uint64  `json:"delayed"`
	Buried   uint64  `json:"buried"`
	Waiting  uint64  `json:"waiting"`
	Using    uint64  `json:"using"`
	Watching uint64  `json:"watching"`
	Total    uint64  `json:"total"`
	Deletes  uint64  `json:"deletes"`
	Puts     float64 `json:"put_rate" doc:"a second"`
	Done     float64 `json:"delete_rate" doc:"a second"`
	Oldest   int64   `json:"oldest_at" doc:"when the oldest ready job was put, milliseconds since 1970; 0 if none is ready"`
	Until    int64   `json:"paused_until" doc:"milliseconds since 1970; 0 if it is not paused"`
	P95      int64   `json:"wait_p95_ms" doc:"within which 95 of 100 jobs were delivered, of all since the server counts; -1 if that is not known"`
	Policy   bool    `json:"policy"`
	Reason   string  `json:"paused_because,omitempty" doc:"if the pause was given a reason on this instance"`
}

// point is one point of the chart of a tube.
type point struct {
	ready, reserved, delayed, buried uint32
	puts, deletes                    float32 // a second
}

// chart has the last points of a tube.
type chart struct {
	points []point // a ring once it has maxPoints
	next   int     // where the next one goes then
	last   time.Time
}

func (c *chart) add(p point, at time.Time) {
	c.last = at
	if len(c.points) < maxPoints {
		c.points = append(c.points, p)
		return
	}
	c.points[c.next] = p
	c.next = (c.next + 1) % maxPoints
}

// all returns the points, the oldest first.
func (c *chart) all() []point { return slices.Concat(c.points[c.next:], c.points[:c.next]) }

// history looks at the tubes for the door.
type history struct {
	queue *queue.Queue
	now   func() time.Time

	mu       sync.Mutex
	live     map[string]liveTube
	order    []string // names in live, sorted
	at       time.Time
	err      error // why the last look failed
	charts   map[string]*chart
	pointed  time.Time         // when points were added last
	then     map[string]counts // of that time
	watchers map[*watcher]struct{}
	reasons  map[string]reason // of pauses, by tube

	wake  chan struct{} // somebody begins to watch
	stop  context.CancelFunc
	ended chan struct{}
}

// counts only grow.
type counts struct{ total, deletes uint64 }

func newHistory(q *queue.Queue) *history {
	return &history{
		queue: q, now: time.Now, live: make(map[string]liveTube), charts: make(map[string]*chart), then: make(map[string]counts),
		watchers: make(map[*watcher]struct{}), reasons: make(map[string]reason), wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// start begins to look, until close.
func (h *history) start() {
	var ctx context.Context
	ctx, h.stop = context.WithCancel(context.Background())
	go h.run(ctx)
}

func (h *history) close() {
	h.stop()
	<-h.ended
}

func (h *history) run(ctx context.Context) {
	defer close(h.ended)
	for ctx.Err() == nil {
		took := h.look(ctx)
		rest := pointEvery
		if h.watched() {
			rest = sampleEvery
		}
		timer := time.NewTimer(max(rest-took, took*restFactor, 0))
		select {
		case <-timer.C:
		case <-h.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (h *history) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers) > 0
}

// look takes down how the tubes are, and tells those who watch. It returns how long that took.
func (h *history) look(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, sampleLimit)
	defer cancel()
	began := h.now()
	names, err := h.queue.Tubes(ctx)
	var all []*tube.TubeStats
	if err == nil {
		all, err = tubeStats(ctx, h.queue, names)
	}
	h.note(all, err, began, h.now())
	return h.now().Sub(began)
}

// note takes down what a look has seen that began and ended then.
func (h *history) note(all []*tube.TubeStats, err error, began, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err = err; err != nil {
		h.tellProblem(err)
		return
	}
	passed := now.Sub(h.at)
	live, order := make(map[string]liveTube, len(all)), make([]string, 0, len(all))
	var changed []liveTube
	for _, s := range all {
		before, was := h.live[s.Name]
		one := liveOf(s, before, was, passed, now)
		if one.Until > 0 {
			one.Reason = h.reasons[s.Name].text
		}
		if live[s.Name], order = one, append(order, s.Name); one != before || !was {
			changed = append(changed, one)
		}
	}
	var gone []string
	for _, name := range h.order {
		if _, ok := live[name]; !ok {
			gone = append(gone, name)
		}
	}
	slices.Sort(order)
	h.live, h.order, h.at = live, order, now
	for name, r := range h.reasons {
		if live[name].Until == 0 && r.at.Before(began) {
			delete(h.reasons, name)
		}
	}
	if now.Sub(h.pointed) >= pointEvery-sampleEvery/2 {
		h.addPoints(now)
	}
	h.tell(changed, gone)
}

// reason is why a tube was paused.
type reason struct {
	text string
	at   time.Time
}

// paused takes down why a tube was paused. No more tubes have reasons than charts.
func (h *history) paused(name, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, has := h.reasons[name]; has || len(h.reasons) < maxCharted {
		h.reasons[name] = reason{why, h.now()}
	}
}

// liveOf returns how a tube is now. before is how it was, if it was there.
func liveOf(s *tube.TubeStats, before liveTube, was bool, passed time.Duration, now time.Time) liveTube {
	one := liveTube{
		Name: s.Name, Ready: s.Ready, Urgent: s.Urgent, Reserved: s.Reserved, Delayed: s.Delayed, Buried: s.Buried, Waiting: s.Waiting,
		Using: s.Using, Watching: s.Watching, Total: s.Total, Deletes: s.Deletes, P95: p95(&s.Waits), Policy: s.HasPolicy,
	}
	if s.Ready > 0 {
		one.Oldest = steady(before.Oldest, now.Add(-s.OldestReady).UnixMilli())
	}
	if s.PauseLeft > 0 {
		one.Until = steady(before.Until, now.Add(s.PauseLeft).UnixMilli())
	}
	if was && passed > 0 {
		one.Puts = smooth(before.Puts, s.Total, before.Total, passed)
		one.Done = smooth(before.Done, s.Deletes, before.Deletes, passed)
	}
	return one
}

// steady returns a time that was computed before if the new one is hardly different.
func steady(before, now int64) int64 {
	if before-1500 < now && now < before+1500 {
		return before
	}
	return now
}

// smooth returns a rate a second: half of it is that of the last look, half what it was before.
func smooth(before float64, now, then uint64, passed time.Duration) float64 {
	if now < then {
		return 0 // the tube was gone in between
	}
	rate := (before + float64(now-then)/passed.Seconds()) / 2
	if rate <= 0.05 { // half of the least that is shown: so a rate ends
		return 0
	}
	return float64(int64(rate*10+0.5)) / 10
}

// p95 returns within how many milliseconds 95 of 100 waits were over: the bound of the bucket of
// the histogram.
func p95(t *tube.Times) int64 {
	n := t.Count()
	if n == 0 {
		return -1
	}
	bounds, sum := tube.TimesBounds(), uint64(0)
	for i, bound := range bounds {
		if sum += t.Counts[i]; sum*100 >= n*95 {
			return bound.Milliseconds()
		}
	}
	return bounds[len(bounds)-1].Milliseconds()
}

// addPoints adds a point to each chart. Charts of tubes that have long been gone are dropped.
func (h *history) addPoints(now time.Time) {
	passed := now.Sub(h.pointed).Seconds()
	then := make(map[string]counts, len(h.order))
	for _, name := range h.order {
		t := h.live[name]
		then[name] = counts{t.Total, t.Deletes}
		c := h.charts[name]
		if c == nil {
			if len(h.charts) >= maxCharted {
				continue
			}
			c = new(chart)
			h.charts[name] = c
		}
		p := point{ready: bounded(t.Ready), reserved: bounded(t.Reserved), delayed: bounded(t.Delayed), buried: bounded(t.Buried)}
		if before, was := h.then[name]; was && before.total <= t.Total && before.deletes <= t.Deletes {
			p.puts, p.deletes = float32(float64(t.Total-before.total)/passed), float32(float64(t.Deletes-before.deletes)/passed)
		}
		c.add(p, now)
	}
	for name, c := range h.charts {
		if now.Sub(c.last) > pointEvery*maxPoints/2 {
			delete(h.charts, name)
		}
	}
	h.then, h.pointed = then, now
}

func bounded(n uint64) uint32 { return uint32(min(n, 1<<32-1)) }
