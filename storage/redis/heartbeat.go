package redis

import "time"

const (
	// heartbeatEvery is how often an instance sends a heartbeat, which may come
	// half as early and half as late again.
	heartbeatEvery = time.Second

	// silence is how long an instance may send none before the others declare it
	// dead, and give back what it has reserved.
	silence = 3 * time.Second

	// noDeaths is asked for instead of silence when nobody is to be declared dead.
	noDeaths = 24 * time.Hour
)

// heartbeat is what a partition knows of its own heartbeats, to tell whether those of
// the others can be trusted. It belongs to the caller of the partition.
type heartbeat struct {
	doubted time.Time // when the heartbeats of others last may have been held up, by clock.now
	last    time.Time // when this instance last sent one, by the local clock; zero if never
}

// doubt notes that at that time a call failed or took long, or a clock was set anew, or
// this instance began: others may have been held up as well.
func (h *heartbeat) doubt(now time.Time) { h.doubted = now }

// patience is after how much silence other instances are to be declared dead. It is
// asked with every heartbeat. If Redis was away, or this instance has been silent
// itself, as on a machine that stood still, the others may have been, and need the time
// to send one. An instance that has just begun does not know whether they were.
func (h *heartbeat) patience(now time.Time) time.Duration {
	local := time.Now()
	if !h.last.IsZero() && local.Sub(h.last) > heartbeatEvery+slow {
		h.doubt(now)
	}
	h.last = local
	if now.Sub(h.doubted) < silence+slow {
		return noDeaths
	}
	return silence
}
