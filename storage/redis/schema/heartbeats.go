package schema

import "time"

const (
	// HeartbeatTimeout is how long the others must have seen no heartbeat of an instance, while
	// Redis answered them, before they declare it dead and give back what it has reserved.
	HeartbeatTimeout = 3 * time.Second

	// SlowCall is the duration of a call from which on heartbeats of other instances are doubted.
	SlowCall = time.Second
)
