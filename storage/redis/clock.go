package redis

import "time"

// clock has the local time and that of Redis. Any goroutine can call now; the rest belongs to
// the caller of the partition.
type clock struct {
	skew func() time.Duration // see Options

	said int64     // the last time that Redis reported, in ms
	at   time.Time // when that was, by the local clock; zero if never
}

// now is the local time, moved by the same amount as the clock of Redis is in tests.
func (k *clock) now() time.Time { return time.Now().Add(k.skew()) }

// redis estimates the clock of Redis, in ms.
func (k *clock) redis() int64 {
	if k.at.IsZero() {
		return k.now().UnixMilli()
	}
	return k.said + k.now().Sub(k.at).Milliseconds()
}

// setRedisTime records the time that Redis has just reported, in ms.
func (k *clock) setRedisTime(redis int64) { k.said, k.at = redis, time.Now() }
