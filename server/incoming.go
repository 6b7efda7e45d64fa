package server

import (
	"errors"

	"redstalk/server/limits"
)

// This file has the bodies of which a part has come, which are bounded over all connections. A
// session that waits for room reads nothing more, so its client has to wait as well.

// errSlow ends a connection whose body takes memory that others need.
var errSlow = errors.New("a body has come too slowly while others waited for its memory")

// mayReceive reports whether more may be read. If not, the session is signalled when it may.
func (s *session) mayReceive() bool {
	size, memory, come := s.in.Partial()
	if come <= limits.Uncounted && memory <= freeBodyMemory {
		return true
	}
	if s.arrival == nil {
		s.arrival = s.server.config.Bounds.Arrive(func() { s.signal(bodyRoom) }, func() { s.signal(bodyMemoryNeeded) })
	}
	s.arrival.Came(s.in.Received())
	return s.arrival.Reserve(int64(memory), int64(size))
}

// firstBody is the memory that a body gets in any case, in bytes.
const freeBodyMemory = 64 << 10

// noteReceived takes down what has come of a body, and whether that was all of it.
func (s *session) updateArrival() {
	if s.arrival == nil {
		return
	}
	if size, _, _ := s.in.Partial(); size == 0 || s.phase >= ending {
		s.arrival.End()
		s.arrival = nil
		return
	}
	s.arrival.Came(s.in.Received())
}
