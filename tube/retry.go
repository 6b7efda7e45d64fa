package tube

import "time"

// After decides what rules say about job id when a delivery has ended. failures and deliveries are
// its numbers including this one, since the put, or since it was last kicked while it was
// parked. If it is not parked, it is due after wait.
func After(r *Rules, id uint64, o Outcome, failures, deliveries uint32) (p Parked, wait time.Duration) {
	if o == Refused {
		return ParkedRefused, 0
	}
	if o == Failure && len(r.Retry) > 0 {
		if int64(failures) > int64(retries(r)) {
			return ParkedRetries, 0
		}
		wait = spread(waitAfter(r, max(failures, 1)), r.Percent(), id, failures)
	}
	if r.Max > 0 && deliveries >= r.Max {
		return ParkedDeliveries, 0
	}
	return NotParked, wait
}

// retries returns after how many failures there is a wait.
func retries(r *Rules) int {
	if r.Doubled > 0 {
		return int(r.Doubled)
	}
	return len(r.Retry)
}

// waitAfter returns the wait after a failure, the first of which is 1: what the list says; or, if
// waits are doubled, twice the wait before it, up to the longest.
func waitAfter(r *Rules, failure uint32) time.Duration {
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
