package redis

import (
	"crypto/rand"
	"sync/atomic"
)

// instance is under which name Redis knows this instance in a partition, and what it
// has recorded of its calls. name may be asked by anybody; the rest belongs to the
// caller of the partition.
type instance struct {
	named        atomic.Pointer[string]
	numbers      uint64 // of calls; the last one given out
	registration uint64 // number of the call that registers the name
	recorded     string // number of the last call that Redis has recorded; "" before the registration
	renamed      bool   // it had another name before
	garbled      bool   // an answer could not be decoded, so nobody knows what this instance has
	largest      int    // bytes; Redis knows that no record that was put here has more
}

// rename begins anew as an instance that nobody knows.
func (i *instance) rename() {
	name := rand.Text()[:8]
	i.renamed = i.named.Swap(&name) != nil
	i.registration = i.nextNumber()
	i.recorded, i.garbled, i.largest = "", false, 0
}

// name has 8 characters.
func (i *instance) name() string { return *i.named.Load() }

// nextNumber returns one that no call had before.
func (i *instance) nextNumber() uint64 {
	i.numbers++
	return i.numbers
}

// isRegistered returns whether Redis knows the name.
func (i *instance) isRegistered() bool { return i.recorded != "" }
