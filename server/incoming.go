package server

import (
	"errors"

	"redstalk/server/limits"
)

// This file limits the memory of bodies of which a part has come, over all connections (package
// limits). A session that waits for memory reads nothing more, so its client has to wait as well.

// errSlow ends a connection whose body uses memory that others need.
var errSlow = errors.New("a body came too slowly while other clients waited for its memory")

// mayReceive reports whether the session may read more. If not, it is signalled when it may.
func (s *session) mayReceive() bool {
	size, memory, come := s.in.Partial()
	if come <= limits.Uncounted && memory <= freeBodyMemory {
		return true
	}
	if s.arrival == nil {
		s.arrival = s.server.config.Limits.Arrive(func() { s.signal(bodyRoom) }, func() { s.signal(bodyMemoryNeeded) })
	}
	s.arrival.Received(s.in.Received())
	return s.arrival.Reserve(int64(memory), int64(size))
}

// freeBodyMemory is the memory that a body gets without asking for it, in bytes.
const freeBodyMemory = 64 << 10

// updateArrival reports how much of a body has come, and whether it is complete.
func (s *session) updateArrival() {
	if s.arrival == nil {
		return
	}
	if size, _, _ := s.in.Partial(); size == 0 || s.phase >= ending {
		s.arrival.End()
		s.arrival = nil
		return
	}
	s.arrival.Received(s.in.Received())
}
