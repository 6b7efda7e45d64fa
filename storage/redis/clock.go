package redis

import "time"

// clock tells the local time and that of Redis. now may be asked by anybody; the rest
// belongs to the caller of the partition.
type clock struct {
	skew func() time.Duration // see Options

	said int64     // what the clock of Redis said last, in ms
	at   time.Time // when that was, by the local clock; zero if never
}

// now is the local time, moved as the clock of Redis is in tests.
func (k *clock) now() time.Time { return time.Now().Add(k.skew()) }

// redis is about what the clock of Redis says, in ms.
func (k *clock) redis() int64 {
	if k.at.IsZero() {
		return k.now().UnixMilli()
	}
	return k.said + k.now().Sub(k.at).Milliseconds()
}

// note takes down what the clock of Redis has just said, in ms.
func (k *clock) note(redis int64) { k.said, k.at = redis, time.Now() }
