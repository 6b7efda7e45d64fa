package access

import (
	"sync/atomic"
	"time"
)

// limits are the limits of one user; 0 is none.
type limits struct {
	connections int64 // concurrent
	jobs, bytes int64 // put per second
}

// account is the current usage of a user. It stays when the file is read again.
type account struct {
	connections atomic.Int64
	jobs, bytes bucket
}

// Join counts a connection of the user. It returns false, and counts nothing, if the user
// would have too many.
func (u *User) Join() bool {
	if n := u.account.connections.Add(1); u.limits.connections > 0 && n > u.limits.connections {
		u.account.connections.Add(-1)
		return false
	}
	return true
}

// Quit ends the counting of a connection. It must be called once for each Join that returned
// true, on the same User or on one that has replaced it.
func (u *User) Quit() { u.account.connections.Add(-1) }

// MayPut counts a job of that size that the user puts. It returns false, and counts nothing,
// if the user has put too much in the last second.
func (u *User) MayPut(bytes int) bool {
	if u.limits.jobs == 0 && u.limits.bytes == 0 {
		return true
	}
	now := time.Now().UnixNano()
	if !u.account.jobs.allows(now, u.limits.jobs) || !u.account.bytes.allows(now, u.limits.bytes) {
		return false
	}
	u.account.jobs.add(now, 1, u.limits.jobs)
	u.account.bytes.add(now, int64(bytes), u.limits.bytes)
	return true
}

// bucket limits a rate. Up to one second's worth is allowed at once. A single larger item is
// also allowed, and blocks all others for as long as the rate requires.
type bucket struct {
	paid atomic.Int64 // nanoseconds since the epoch up to which the rate is used up
}

// allows reports whether one more is allowed at a rate per second; 0 is no limit. It is if the
// rate leaves room for one within the next second.
func (b *bucket) allows(now, rate int64) bool {
	return rate == 0 || b.paid.Load() <= now+int64(time.Second)-int64(time.Second)/rate
}

// add records that n were used, at a rate per second; 0 is no limit.
func (b *bucket) add(now, n, rate int64) {
	if rate == 0 {
		return
	}
	cost := int64(float64(n) / float64(rate) * float64(time.Second))
	for {
		paid := b.paid.Load()
		if b.paid.CompareAndSwap(paid, max(paid, now)+cost) {
			return
		}
	}
}
