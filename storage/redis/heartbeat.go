package redis

import "time"

const (
	// heartbeatEvery is how often an instance sends a heartbeat, which may come
	// half as early and half as late again.
	heartbeatEvery = time.Second

	// silence is how long an instance must have given none, while Redis answered the
	// others, before they declare it dead, and give back what it has reserved.
	heartbeatTimeout = 3 * time.Second
)

// heartbeat is what a partition knows of its own heartbeats, and of those of the other
// instances. It belongs to the caller of the partition.
//
// That another one is silent is measured by the local clock alone, while Redis answers:
// the clock of Redis may be set at any time, and Redis may have been away for long. Of
// what Redis says of a heartbeat it only matters whether it is another one than before.
type heartbeat struct {
	doubted time.Time // when the heartbeats of others last may have been held up, by clock.now
	last    time.Time // when this instance last sent one, by the local clock; zero if never
	others  map[string]sighting
}

// sighting is the last heartbeat that another instance gave.
type sighting struct {
	beat  string    // what Redis says of it
	since time.Time // when Redis was first asked and said so, by clock.now
}

// doubt notes that at that time a call failed or took long, or this instance began:
// others may have been held up as well.
func (h *heartbeat) doubt(now time.Time) { h.doubted = now }

// saw notes the last heartbeats of all instances, a name and what Redis says of it in
// turns, as they were when Redis answered a call that was sent then.
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

// silent returns instances that are to be declared dead, unless they have given a
// heartbeat since they were last seen. It is asked with every heartbeat. If Redis was
// away, or this instance has been silent itself, as on a machine that stood still, the
// others may have been, and need the time to send one. An instance that has just begun
// does not know whether they were.
func (h *heartbeat) silent(now time.Time) map[string]sighting {
	local := time.Now()
	if !h.last.IsZero() && elapsed(h.last, local) > heartbeatEvery+slowCall {
		h.doubt(now)
	}
	h.last = local
	if now.Sub(h.doubted) < heartbeatTimeout+slowCall {
		return nil
	}
	dead := make(map[string]sighting)
	for name, seen := range h.others {
		if now.Sub(seen.since) >= heartbeatTimeout && len(dead) < maxMoves {
			dead[name] = seen
		}
	}
	return dead
}
