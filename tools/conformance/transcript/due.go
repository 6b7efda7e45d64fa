package transcript

import (
	"fmt"
	"time"
)

// due is when something must happen, and how long to wait to see.
type due struct {
	timed            bool
	from             time.Time
	earliest, latest time.Duration // after from
	giveUp           time.Time
}

// due computes a window; w can be nil.
func (p *player) due(l *link, w *window) (due, error) {
	if w == nil {
		return due{giveUp: time.Now().Add(p.target.Patience)}, nil
	}
	from := l.lastSend
	if w.mark != "" {
		m, ok := p.marks[w.mark]
		if !ok {
			return due{}, fmt.Errorf("no mark %s", w.mark)
		}
		from = m
	}
	d := due{timed: true, from: from, earliest: w.lo - granularity, latest: w.hi + p.target.Slack}
	p.clock.allowUntil(from.Add(w.hi))
	// Wait a while longer, to distinguish late from never.
	d.giveUp = from.Add(d.latest + p.target.Patience)
	return d, nil
}

// misses describes how at is outside of d; "" if it is inside.
func (d due) misses(at time.Time) string {
	after := at.Sub(d.from)
	switch {
	case !d.timed:
		return ""
	case after < d.earliest:
		return fmt.Sprintf("it too early, after %v", after.Round(time.Microsecond))
	case after > d.latest:
		return fmt.Sprintf("it too late, after %v", after.Round(time.Microsecond))
	}
	return ""
}
