package tube

import "time"

// Limits are how many jobs of a tube or a group can be reserved at a time, and how many can start.
type Limits struct {
	Concurrency uint32 // reserved jobs; 0: not set
	Rates       Rates
}

// Over returns l, with what it does not set taken from other.
func (l Limits) Over(other Limits) Limits {
	if l.Concurrency == 0 {
		l.Concurrency = other.Concurrency
	}
	if l.Rates == (Rates{}) {
		l.Rates = other.Rates
	}
	return l
}

// Rates are how many jobs can start in any period of each length in RatePeriods; 0: any number.
// Each start takes a token of each rate, which comes back one period later.
type Rates [3]uint32

// RatePeriods are the periods of Rates.
var RatePeriods = [len(Rates{})]time.Duration{time.Second, time.Minute, time.Hour}

// GroupOrder says in which order the jobs of a group are reserved.
type GroupOrder uint8

const (
	NoGroupOrder GroupOrder = iota // the policy does not say, which is Fair
	Fair                           // the jobs of a group can run at the same time
	Strict                         // one at a time; a job that has failed keeps the others waiting
)

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
