package metrics

import (
	"redstalk/server/webhook"
)

// Pushing sets the source of the figures about pushes.
func (o *Observer) Pushing(stats func() *webhook.Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pushes = stats
}

// pushStats returns the figures about pushes; nil if there are none.
func (o *Observer) pushStats() *webhook.Stats {
	o.mu.Lock()
	stats := o.pushes
	o.mu.Unlock()
	if stats == nil {
		return nil
	}
	return stats()
}

// addPushes adds the counters of pushes.
func (o *Observer) addPushes(fs families, s *webhook.Stats) {
	fs.add("redstalk_push_tubes", float64(s.Pushing))
	fs.add("redstalk_push_waiting_tubes", float64(s.Waiting))
	fs.add("redstalk_push_running_calls", float64(s.Running))
	for i := range s.Tubes {
		fs.addPushTube(s.Tubes[i].Tube, &s.Tubes[i])
	}
	if s.Rest.Calls != ([webhook.NumResults]uint64{}) {
		fs.addPushTube(Others, &s.Rest)
	}
	for _, t := range s.Targets[:min(len(s.Targets), o.config.Tubes)] {
		fs.add("redstalk_push_breaker", 1, t.Target, t.State)
	}
}

// pushBounds are the bounds of the histogram of calls.
var pushBounds = boundsOf(len(webhook.Buckets), func(i int) float64 { return webhook.Buckets[i] })

func (fs families) addPushTube(name string, s *webhook.TubeStats) {
	calls := uint64(0)
	for r, n := range s.Calls {
		if n > 0 {
			fs.add("redstalk_push_calls_total", float64(n), name, webhook.Result(r).String())
		}
	}
	for _, n := range s.Took {
		calls += n
	}
	if s.Late > 0 {
		fs.add("redstalk_push_late_total", float64(s.Late), name)
	}
	if calls > 0 {
		fs.addHistogram("redstalk_push_seconds", pushBounds, s.Took[:], s.Seconds, name)
	}
}
