package httpapi

import (
	"slices"
	"time"
)

const (
	// pointEvery is the time between two points of a chart. maxPoints is the number of
	// points: an hour.
	pointEvery = 10 * time.Second
	maxPoints  = 360

	// maxCharted is the maximum number of tubes with charts. A point takes 24 bytes, so all
	// charts take at most 9 MB.
	maxCharted = 1000
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

// history has the charts of all tubes.
type history struct {
	charts   map[string]*chart
	last     time.Time         // when points were last added
	previous map[string]counts // the counts at that time, by tube
}

// add adds a point to the chart of each tube in names, if it is time. It drops the charts of
// tubes that have been gone for half an hour.
func (h *history) add(names []string, live map[string]liveTube, now time.Time) {
	passed := now.Sub(h.last)
	if passed < pointEvery-sampleEvery/2 {
		return
	}
	counted := make(map[string]counts, len(names))
	for _, name := range names {
		t := live[name]
		counted[name] = counts{t.Total, t.Deletes}
		if h.charts[name] == nil {
			if len(h.charts) >= maxCharted {
				continue
			}
			h.charts[name] = new(chart)
		}
		h.charts[name].add(pointOf(&t, h.previous, passed), now)
	}
	for name, c := range h.charts {
		if now.Sub(c.last) > pointEvery*maxPoints/2 {
			delete(h.charts, name)
		}
	}
	h.previous, h.last = counted, now
}

// pointOf returns the point of a tube. previous are the counts of all tubes before passed.
func pointOf(t *liveTube, previous map[string]counts, passed time.Duration) point {
	p := point{ready: clampUint32(t.Ready), reserved: clampUint32(t.Reserved), delayed: clampUint32(t.Delayed), buried: clampUint32(t.Buried)}
	if before, was := previous[t.Name]; was && before.total <= t.Total && before.deletes <= t.Deletes {
		p.puts = float32(float64(t.Total-before.total) / passed.Seconds())
		p.deletes = float32(float64(t.Deletes-before.deletes) / passed.Seconds())
	}
	return p
}

func clampUint32(n uint64) uint32 { return uint32(min(n, 1<<32-1)) }
