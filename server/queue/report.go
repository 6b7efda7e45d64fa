package queue

import (
	"context"
	"time"

	"redstalk/storage"
)

// Report is what is known of the store without asking it anything.
func (q *Queue) Report() storage.Report {
	if q.reporter == nil {
		return storage.Report{Silence: -1}
	}
	return q.reporter.Report()
}

// TimerLag is how late the store's timer is: how late it was when it fired last, or, if it
// should have fired since, how long ago that is. What is due by time is as late.
func (q *Queue) TimerLag() time.Duration { return q.timer.lag() }

// lag is TimerLag.
func (t *timer) lag() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.last, time.Since(t.at), 0)
}

// Survey asks the processes that share or keep the store how they are; nil: there are none.
func (q *Queue) Topology(ctx context.Context) (*storage.Topology, error) {
	s, ok := q.store.(storage.Surveyor)
	if !ok {
		return nil, nil
	}
	return s.Topology(ctx)
}
