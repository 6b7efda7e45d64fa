package redis

import "time"

// clockStep is by how much the clock of Redis may go ahead of the local one, or
// fall behind it, from one call to the next without being taken for set anew.
const clockStep = 500 * time.Millisecond

// clock tells the local time and that of Redis. now may be asked by anybody; the rest
// belongs to the caller of the partition.
type clock struct {
	skew  func() time.Duration // see Options
	apart bool                 // see Options.clocksApart

	ahead int64 // how many ms the clock of Redis is ahead of the local one
	known bool  // whether that is known
}

// now is the local time, moved as the clock of Redis is in tests.
func (k *clock) now() time.Time { return time.Now().Add(k.skew()) }

// redis is about what the clock of Redis says, in ms.
func (k *clock) redis() int64 { return k.now().UnixMilli() + k.ahead }

// note takes down what the clock of Redis has just said, in ms, and returns whether it
// or the local one has been set anew since the last time.
func (k *clock) note(redis int64) (set bool) {
	ahead := redis - time.Now().UnixMilli()
	by := time.Duration(ahead-k.ahead) * time.Millisecond
	set = k.known && by.Abs() > clockStep && !k.apart
	k.ahead, k.known = ahead, true
	return set
}
