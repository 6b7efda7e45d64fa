package access

import (
	"sync/atomic"
	"time"
)

// limits are those of one user; 0 is none.
type limits struct {
	connections int64 // at a time
	jobs, bytes int64 // put in a second
}

// account is what a user does. It stays when the file is read again.
type account struct {
	connections atomic.Int64
	jobs, bytes bucket
}

// Join counts a connection of the user. It returns false, and counts nothing, if that is
// one too many.
func (u *User) Join() bool {
	if n := u.account.connections.Add(1); u.limits.connections > 0 && n > u.limits.connections {
		u.account.connections.Add(-1)
		return false
	}
	return true
}

// Quit ends what Join has begun. It is called once for each Join that returned true, of
// this User or of one that has taken its place.
func (u *User) Quit() { u.account.connections.Add(-1) }

// MayPut counts a job of so many bytes that the user puts. It returns false, and counts
// nothing, if the user has put too much in the last second.
func (u *User) MayPut(bytes int) bool {
	if u.limits.jobs == 0 && u.limits.bytes == 0 {
		return true
	}
	now := time.Now().UnixNano()
	if !u.account.jobs.open(now, u.limits.jobs) || !u.account.bytes.open(now, u.limits.bytes) {
		return false
	}
	u.account.jobs.add(now, 1, u.limits.jobs)
	u.account.bytes.add(now, int64(bytes), u.limits.bytes)
	return true
}

// bucket bounds a rate: up to one second's worth may come at once. What is larger than
// that may come, too, and then nothing else for as long as it takes to make up for it.
type bucket struct {
	paid atomic.Int64 // nanoseconds since the epoch until which all that came is paid for
}

// open reports whether something may come, at a rate per second; 0 has no bound. There must be
// room for one in the second that begins now.
func (b *bucket) open(now, rate int64) bool {
	return rate == 0 || b.paid.Load() <= now+int64(time.Second)-int64(time.Second)/rate
}

// add records that n have come, at a rate per second; 0 has no bound.
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
