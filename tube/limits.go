package tube

import "time"

// GroupConfig is what set-group sets for one group of a tube. It is never changed, only replaced.
type GroupConfig struct {
	Limits               // over those of the tube's policy
	Weight uint32        // 1 to MaxWeight
	TTL    time.Duration // it is forgotten when its group has had no job for so long; whole milliseconds; 0: never
}

// DefaultGroupTTL is the TTL of a GroupConfig that says nothing else.
const DefaultGroupTTL = 30 * 24 * time.Hour

// MaxGroupWeight is the largest weight of a group.
const MaxGroupWeight = 1000

// Held says why ready jobs cannot be reserved.
type Held uint8

const (
	NotHeld Held = iota
	HeldByPause
	HeldByConcurrency
	HeldByRate
	HeldByBatch // a delayed job without a due time: it runs after a batch

	// LastHeld is the largest of them.
	LastHeld = HeldByBatch
)

// String returns the word in list-jobs.
func (h Held) String() string { return [...]string{"", "paused", "concurrency", "rate", "batch"}[h] }

// GroupStats is what stats-group prints about a group.
type GroupStats struct {
	Name                             string
	Ready, Delayed, Reserved, Buried uint64
	Limits                           // as they apply
	Weight                           uint32
	PauseLeft                        time.Duration // 0: not paused
	Held                             Held          // of its ready jobs; NotHeld if there are none
}
