package httpapi

import (
	"context"
	"slices"
	"time"
)

// point is one point of the chart of a tube.
type point struct {
	ready, reserved, delayed, buried uint32
	puts, deletes                    float32 // a second
}

// chart has the last maxPoints points of a tube.
type chart struct {
	points []point // a ring buffer once it is full
	next   int     // index of the oldest point in the ring
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

// counts are the counters from which rates follow. They only grow.
type counts struct{ total, deletes uint64 }

// addPoints adds a point to each chart. It drops the charts of tubes that have been gone for
// half an hour.
func (p *poller) addPoints(now time.Time) {
	passed := now.Sub(p.lastPoints).Seconds()
	counted := make(map[string]counts, len(p.order))
	for _, name := range p.order {
		t := p.live[name]
		counted[name] = counts{t.Total, t.Deletes}
		c := p.charts[name]
		if c == nil {
			if len(p.charts) >= maxCharted {
				continue
			}
			c = new(chart)
			p.charts[name] = c
		}
		latest := point{ready: clampUint32(t.Ready), reserved: clampUint32(t.Reserved), delayed: clampUint32(t.Delayed), buried: clampUint32(t.Buried)}
		if before, was := p.previous[name]; was && before.total <= t.Total && before.deletes <= t.Deletes {
			latest.puts, latest.deletes = float32(float64(t.Total-before.total)/passed), float32(float64(t.Deletes-before.deletes)/passed)
		}
		c.add(latest, now)
	}
	for name, c := range p.charts {
		if now.Sub(c.last) > pointEvery*maxPoints/2 {
			delete(p.charts, name)
		}
	}
	p.previous, p.lastPoints = counted, now
}

func clampUint32(n uint64) uint32 { return uint32(min(n, 1<<32-1)) }

type chartsOutput struct{ Body chartsInfo }

// chartsInfo are the charts of several tubes.
type chartsInfo struct {
	EveryMS int64                `json:"every_ms" doc:"milliseconds between two points"`
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
	Points uint64 `query:"points" minimum:"1" maximum:"360" default:"60" doc:"how many points, up to the latest"`
}

// charts returns the ready jobs of all tubes that have a chart.
func (api *API) charts(ctx context.Context, in *chartsInput) (*chartsOutput, error) {
	p := api.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	info := chartsInfo{EveryMS: pointEvery.Milliseconds(), Tubes: make(map[string]chartInfo)}
	for _, name := range visible(ctx, p.order) {
		c := p.charts[name]
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

// chart returns the whole chart of one tube.
func (api *API) chart(_ context.Context, in *TubePath) (*chartsOutput, error) {
	p := api.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	info := chartsInfo{EveryMS: pointEvery.Milliseconds(), Tubes: make(map[string]chartInfo)}
	if c := p.charts[in.Tube]; c != nil {
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
