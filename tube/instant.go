package tube

import "time"

// Instant is a point in time, in nanoseconds since the Unix epoch. The rules only
// compare instants and add to them. The engine decides which clock they come from; see
// Machine.SetWallClock for what must follow the wall clock.
type Instant int64

// Never is later than every instant that can be reached.
const Never Instant = 1<<63 - 1

// Latest is the latest time at which a job can be due, a whole millisecond in April 2262.
const Latest = (Never/Instant(time.Millisecond) - 1) * Instant(time.Millisecond)

// After returns the instant that many whole seconds later. It cannot overflow:
// seconds in the protocol are unsigned 32-bit numbers.
func (t Instant) After(seconds uint32) Instant {
	return t + Instant(seconds)*Instant(time.Second)
}

// Plus returns the instant d later, at most Latest.
func (t Instant) Plus(d time.Duration) Instant { return t + Instant(min(d, Latest.Until(t))) }

// Until returns the time from now to t. It is negative if t has passed.
func (t Instant) Until(now Instant) time.Duration {
	if t == Never {
		return time.Duration(Never)
	}
	return time.Duration(t - now)
}

// shifted returns the instant that much later, at most Latest, if it is neither 0 nor Never.
func (t Instant) shifted(by Instant) Instant {
	if by == 0 || t == 0 || t == Never {
		return t
	}
	return min(t, Latest-max(by, 0)) + by
}

// inMilliseconds returns the last whole millisecond.
func inMilliseconds(t Instant) Instant { return t - t%Instant(time.Millisecond) }

// inWholeMilliseconds rounds up, to Latest at most.
func inWholeMilliseconds(t Instant) Instant {
	const ms = Instant(time.Millisecond)
	return min((t+ms-1)/ms*ms, Latest)
}

// wholeSeconds returns a wait, rounded up to whole seconds.
func wholeSeconds(wait time.Duration) uint32 {
	return uint32(min((wait+time.Second-1)/time.Second, 1<<32-1))
}
