package field

import (
	"slices"
	"time"
)

// OnDuplicate says what a put does if a job of its tube has the key, or had it recently.
type OnDuplicate uint8

const (
	NotSaid OnDuplicate = iota // the tube's policy decides, or else Keep
	Keep                       // nothing is put
	Replace                    // the other job is removed, whoever holds it
	Fail                       // nothing is put, and the client gets an error

	// Follow is Keep, unless the other job has been started at least once since it was put or replayed:
	// then the new job gets the key, and the other has none any more, nor leaves a tombstone of it. Only
	// schedules use it.
	Follow
)

// OnDuplicateWords are the words of the values in the protocol; that of NotSaid is "".
var OnDuplicateWords = []string{"", "keep", "replace", "fail"}

// ParseOnDuplicate parses one of the words.
func ParseOnDuplicate(word string) (d OnDuplicate, ok bool) {
	i := slices.Index(OnDuplicateWords, word)
	return OnDuplicate(max(i, 0)), i > 0
}

// OnExpire says what happens to a job when its time is over.
type OnExpire uint8

const (
	NoOnExpire OnExpire = iota // the tube's policy decides, or else ExpireDelete
	ExpireDelete
	ExpirePark // it is parked

	// LastOnExpire is the largest of them.
	LastOnExpire = ExpirePark
)

// OnExpireWords are the words of the values in the protocol; that of NoOnExpire is "".
var OnExpireWords = []string{"", "delete", "park"}

// GroupOrder says in which order the jobs of a group are reserved.
type GroupOrder uint8

const (
	NoGroupOrder GroupOrder = iota // the policy does not say, which is Fair
	Fair                           // the jobs of a group can run at the same time
	Strict                         // one at a time; a job that has failed keeps the others waiting
)

// GroupOrderWords are the words of the values in the protocol; that of NoGroupOrder is "".
var GroupOrderWords = []string{"", "fair", "strict"}

// Jitter says by what part of its length a wait is lengthened or shortened at most: 1 plus the
// per cent, which are at most 100; or NoJitter, if that is not set.
type Jitter uint8

// NoJitter says that the jitter is not set.
const NoJitter Jitter = 0

// JitterOfDoubled is by how many per cent doubled waits are spread unless the rules say otherwise.
const JitterOfDoubled = 10

// JitterOf returns a Jitter of that many per cent.
func JitterOf(percent uint8) Jitter { return Jitter(percent) + 1 }

// Lifetime is how long a job is worth doing from when it is first due, or how long its record is kept: 1 ms plus that time, which
// is whole milliseconds; or NoLifetime, if that is not set. A time of zero means for ever, or not at all.
type Lifetime time.Duration

// NoLifetime says that the lifetime is not set.
const NoLifetime Lifetime = 0

// LifetimeOf returns a Lifetime of that time.
func LifetimeOf(d time.Duration) Lifetime { return Lifetime(d + time.Millisecond) }

// Duration returns the time.
func (l Lifetime) Duration() time.Duration {
	if l == NoLifetime {
		return 0
	}
	return time.Duration(l) - time.Millisecond
}

// Limits are how many jobs of a tube or a group can be reserved at a time, and how many can start.
type Limits struct {
	Concurrency uint32 // reserved jobs, at most MaxLimit; 0: not set
	Rates       Rates
}

// MaxLimit is the largest concurrency, and the largest number in a rate.
const MaxLimit = 1_000_000

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
