package redis

import (
	"crypto/rand"
	"sync/atomic"
)

// instance is the name under which Redis knows this instance in a partition, and what Redis has
// recorded of its calls. name is safe for concurrent use; the rest belongs to the caller of the
// partition.
type instance struct {
	named        atomic.Pointer[string]
	numbers      uint64 // the last call number that was used
	registration uint64 // number of the call that registers the name
	recorded     string // number of the last call that Redis has recorded; "" before the registration
	renamed      bool   // it had another name before
	garbled      bool   // a reply could not be decoded, so holdings may be wrong
	largest      int    // size, in bytes, that Redis knows no record put here exceeds
}

// rename continues as a new, unknown instance.
func (i *instance) rename() {
	name := rand.Text()[:8]
	i.renamed = i.named.Swap(&name) != nil
	i.registration = i.nextNumber()
	i.recorded, i.garbled, i.largest = "", false, 0
}

// name returns the name, which has 8 characters.
func (i *instance) name() string { return *i.named.Load() }

// nextNumber returns a new call number.
func (i *instance) nextNumber() uint64 {
	i.numbers++
	return i.numbers
}

// isRegistered returns whether Redis knows the name.
func (i *instance) isRegistered() bool { return i.recorded != "" }
