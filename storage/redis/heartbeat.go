package redis

import (
	"time"

	"redstalk/storage/redis/schema"
)

const (
	// heartbeatEvery is the interval of heartbeats. The actual interval varies by half of it
	// either way.
	heartbeatEvery = time.Second
)

// heartbeat is what a partition knows of its own heartbeats, and of those of the other
// instances. It belongs to the caller of the partition.
//
// Only the local clock measures how long another instance is silent, and only while Redis
// answers: the clock of Redis can be set at any time, and Redis can have been down for long. Of
// the time that Redis reports for a heartbeat, it only matters whether it has changed.
type heartbeat struct {
	doubted time.Time // when heartbeats of others last may have been delayed, by clock.now
	last    time.Time // when this instance last sent one, by the local clock; zero if never
	others  map[string]sighting
}

// sighting is the last heartbeat of another instance.
type sighting struct { // its time as a text, as Redis reports it
	beat  string    // when Redis first reported that, by clock.now
	since time.Time // when Redis was first asked and said so, by clock.now
}

// doubt records that at that time a call failed or took long, or this instance started: other
// instances may have been delayed as well.
func (h *heartbeat) doubt(now time.Time) { h.doubted = now }

// saw records the last heartbeats of all instances, alternately a name and a time, from the
// reply to a call that was sent then.
func (h *heartbeat) saw(beats []string, own string, sent time.Time) {
	seen := make(map[string]sighting, len(beats)/2)
	for i := 0; i+1 < len(beats); i += 2 {
		name, beat := beats[i], beats[i+1]
		last := h.others[name]
		if last.beat != beat {
			last = sighting{beat, sent}
		}
		if name != own {
			seen[name] = last
		}
	}
	h.others = seen
}

// silent returns the instances to be declared dead, unless they have sent a heartbeat since
// they were last seen. It is called with every heartbeat. If Redis was down, or this instance
// was paused itself, as on a suspended machine, the others may have been too and need time to
// send one. An instance that has just started does not know whether they were.
func (h *heartbeat) silent(now time.Time) map[string]sighting {
	local := time.Now()
	if !h.last.IsZero() && elapsed(h.last, local) > heartbeatEvery+schema.SlowCall {
		h.doubt(now)
	}
	h.last = local
	if now.Sub(h.doubted) < schema.HeartbeatTimeout+schema.SlowCall {
		return nil
	}
	dead := make(map[string]sighting)
	for name, seen := range h.others {
		if now.Sub(seen.since) >= schema.HeartbeatTimeout && len(dead) < maxMoves {
			dead[name] = seen
		}
	}
	return dead
}
