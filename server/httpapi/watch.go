package httpapi

import (
	"encoding/json"
	"slices"
	"time"

	"redstalk/server/access"
	"redstalk/tube"
)

// This file has what a client of /v1/watch is sent: the first event has all tubes, the later
// ones only the tubes that have changed.

// liveTube is the state of a tube in the watch stream. If a tube does not change, its value is
// equal in two polls, and it is not sent again.
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
	Puts     float64 `json:"put_rate" doc:"per second"`
	Done     float64 `json:"delete_rate" doc:"per second"`
	Oldest   int64   `json:"oldest_at" doc:"when the oldest ready job was put, milliseconds since 1970; 0 if none is ready"`
	Until    int64   `json:"paused_until" doc:"milliseconds since 1970; 0 if the tube is not paused"`
	P95      int64   `json:"wait_p95_ms" doc:"95th percentile of the time until delivery, since the server started counting; -1 if unknown"`
	Policy   bool    `json:"policy"`
	Reason   string  `json:"pause_reason,omitempty" doc:"the reason of the pause, if it was given on this instance"`
}

// liveTubeOf returns the state of a tube. If the tube was in the previous poll, was is true and
// before is its state then.
func liveTubeOf(s *tube.TubeStats, before liveTube, was bool, passed time.Duration, now time.Time) liveTube {
	one := liveTube{
		Name: s.Name, Ready: s.Ready, Urgent: s.Urgent, Reserved: s.Reserved, Delayed: s.Delayed, Buried: s.Buried, Waiting: s.Waiting,
		Using: s.Using, Watching: s.Watching, Total: s.Total, Deletes: s.Deletes, P95: p95(&s.Waits), Policy: s.HasPolicy,
	}
	if s.Ready > 0 {
		one.Oldest = stabilize(before.Oldest, now.Add(-s.OldestReady).UnixMilli())
	}
	if s.PauseLeft > 0 {
		one.Until = stabilize(before.Until, now.Add(s.PauseLeft).UnixMilli())
	}
	if was && passed > 0 {
		one.Puts = smooth(before.Puts, s.Total, before.Total, passed)
		one.Done = smooth(before.Done, s.Deletes, before.Deletes, passed)
	}
	return one
}

// stabilize returns before if now differs from it by less than 1.5 s, so that a time that is
// computed in each poll does not change all the time. Both are in milliseconds.
func stabilize(before, now int64) int64 {
	if before-1500 < now && now < before+1500 {
		return before
	}
	return now
}

// smooth returns a rate per second: the mean of the previous rate and that of the last poll.
func smooth(before float64, now, then uint64, passed time.Duration) float64 {
	if now < then {
		return 0 // the tube was deleted and created again
	}
	rate := (before + float64(now-then)/passed.Seconds()) / 2
	if rate <= 0.05 { // half of the smallest rate that is shown; without this it would never reach 0
		return 0
	}
	return float64(int64(rate*10+0.5)) / 10
}

// p95 returns the 95th percentile of waits in milliseconds: the upper bound of its bucket.
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

// watchEvent is an event of the stream.
type watchEvent struct {
	At    int64      `json:"at" doc:"milliseconds since 1970"`
	Tubes []liveTube `json:"tubes" nullable:"false" doc:"all tubes in the first event, then the changed ones"`
	Gone  []string   `json:"gone,omitempty" nullable:"false" doc:"tubes that no longer exist"`
}

// watcher is a client of the stream. The mutex of the poller guards the changes that were not
// sent yet.
type watcher struct {
	user    *access.User  // nil means that all tubes are visible
	updates chan struct{} // signals that there is an event to send

	changed map[string]liveTube
	gone    map[string]bool
	problem []byte
}

func (w *watcher) signal() {
	select {
	case w.updates <- struct{}{}:
	default:
	}
}

// watchers are all clients of the stream.
type watchers map[*watcher]struct{}

// publish passes changes to the watchers. It signals even if nothing has changed, so that a
// client knows that the stream is alive.
func (all watchers) publish(changed []liveTube, gone []string) {
	for w := range all {
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

// publishProblem passes the error of a poll to the watchers.
func (all watchers) publishProblem(err error) {
	text, _ := json.Marshal(problemOf(err)) // strings and numbers can always be encoded
	for w := range all {
		w.problem = text
		w.signal()
	}
}

// visible returns the names of tubes whose jobs the client may list, sorted.
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
		names = slices.Clone(w.user.Visible(names, access.List))
	}
	return names
}
