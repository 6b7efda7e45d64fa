package ledger

import (
	"context"
	"math/rand/v2"
	"time"
)

// freezer decides when a client that holds jobs freezes: it neither reads nor writes for a
// while, and then continues as if nothing had happened. Each
// is frozen for a tenth of its time.
type freezer struct {
	rng         *rand.Rand
	least, most time.Duration
	next        time.Time // zero: never
}

// awake is the average ratio of the time that a client is awake to the time that it is frozen.
const awake = 9

func (l *Ledger) newNap(rng *rand.Rand) *freezer {
	n := &freezer{rng: rng, least: l.config.MinFreeze, most: l.config.MaxFreeze}
	if n.most > 0 { // somewhere between two
		n.next = time.Now().Add(time.Duration(rng.Int64N(int64(awake * n.most))))
	}
	return n
}

func (n *freezer) due() bool { return !n.next.IsZero() && time.Now().After(n.next) }

func (n *freezer) length() time.Duration {
	return n.least + time.Duration(n.rng.Int64N(int64(n.most-n.least)+1))
}

// take freezes the client if it is time.
func (n *freezer) take(ctx context.Context, l *Ledger) {
	l.count(func(r *Report) { r.Frozen++ })
	sleep(ctx, n.length())
	n.next = time.Now().Add(awake * n.length())
}
