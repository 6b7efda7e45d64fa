package queue

import (
	"context"
	"time"

	"redstalk/storage"
)

// Report returns what is known of the store without a call to it.
func (q *Queue) Report() storage.Report {
	if q.reporter == nil {
		return storage.Report{SinceContact: -1}
	}
	return q.reporter.Report()
}

// TimerLag returns how late the store's timer is: how late it was when it last fired, or, if
// it should have fired since, how long ago that is. Delays and TTRs are late by as much.
func (q *Queue) TimerLag() time.Duration { return q.timer.lag() }

// lag is TimerLag.
func (t *timer) lag() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.last, time.Since(t.at), 0)
}

// Topology asks the processes that share or host the store for their state; nil if there are
// none.
func (q *Queue) Topology(ctx context.Context) (*storage.Topology, error) {
	s, ok := q.store.(storage.TopologyStore)
	if !ok {
		return nil, nil
	}
	return s.Topology(ctx)
}
