package tube

import "time"

// MaxDoubled is the largest Rules.Doubled.
const MaxDoubled = 250

// Jitter says by what part of its length a wait is lengthened or shortened at most: 1 plus the
// per cent, which are at most 100; or NoJitter, if that is not set.
type Jitter uint8

// NoJitter says that the jitter is not set.
const NoJitter Jitter = 0

// JitterOfDoubled is by how many per cent doubled waits are spread unless the rules say otherwise.
const JitterOfDoubled = 10

// JitterOf returns a Jitter of that many per cent.
func JitterOf(percent uint8) Jitter { return Jitter(percent) + 1 }

// Percent returns by how many per cent waits are spread.
func (r *Rules) Percent() uint8 {
	switch {
	case r.Jitter != NoJitter:
		return uint8(r.Jitter) - 1
	case r.Doubled > 0:
		return JitterOfDoubled
	}
	return 0
}

// After decides what happens to job id when a delivery has ended. failures and deliveries are
// its numbers including this one, since the put, or since it was last kicked while it was
// parked. If it is not parked, it is due after wait.
func (r *Rules) After(id uint64, o Outcome, failures, deliveries uint32) (p Parked, wait time.Duration) {
	if o == Refused {
		return ParkedRefused, 0
	}
	if o == Failure && len(r.Retry) > 0 {
		if int64(failures) > int64(r.retries()) {
			return ParkedRetries, 0
		}
		wait = spread(r.waitAfter(max(failures, 1)), r.Percent(), id, failures)
	}
	if r.Max > 0 && deliveries >= r.Max {
		return ParkedDeliveries, 0
	}
	return NotParked, wait
}

// retries returns after how many failures there is a wait.
func (r *Rules) retries() int {
	if r.Doubled > 0 {
		return int(r.Doubled)
	}
	return len(r.Retry)
}

// waitAfter returns the wait after a failure, the first of which is 1: what the list says; or, if
// waits are doubled, twice the wait before it, up to the longest.
func (r *Rules) waitAfter(failure uint32) time.Duration {
	if r.Doubled == 0 {
		return r.Retry[failure-1]
	}
	wait, longest := r.Retry[0], r.Retry[1]
	for ; failure > 1 && wait < longest; failure-- {
		wait *= 2
	}
	return min(wait, longest)
}

// spread lengthens or shortens a wait, in whole milliseconds, by up to that many per cent. By how
// much depends only on the job and the number of its failures, so that every engine, and every
// repetition of a call, comes to the same. All numbers are below 2^53: Lua does the same in
// doubles.
func spread(wait time.Duration, percent uint8, id uint64, failures uint32) time.Duration {
	most := uint64(wait/time.Millisecond) * uint64(percent) / 100
	if most == 0 {
		return wait
	}
	const prime, steps = 1<<31 - 1, 1 << 13
	hash := (id%prime*48271 + uint64(failures)*69621 + 1) % prime
	hash = hash * 16807 % prime
	by := hash % steps * (2*most + 1) / steps
	return wait + time.Duration(int64(by)-int64(most))*time.Millisecond
}
