package tube

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// laneTable has the lanes of the groups of a tube by their names. It is a hash table that grows and
// shrinks by one bucket at a time (linear hashing), so that no put waits until all lanes have moved. A
// bucket is a list, linked by lane.next.
type laneTable struct {
	buckets parts[*lane]
	count   int
	scanned int // the bucket where withReady begins
}

var laneSeed = maphash.MakeSeed()

// hashOf returns lane.hash for a group.
func hashOf(group string) uint32 { return uint32(maphash.String(laneSeed, group)) }

// find returns the lane of a group, nil if there is none. hash is that of the group.
func (t *laneTable) find(group string, hash uint32) *lane {
	if t.count == 0 {
		return nil
	}
	l := *t.bucket(hash)
	for l != nil && (l.hash != hash || l.name != group) {
		l = l.next
	}
	return l
}

// bucket returns the bucket of a hash; there must be buckets.
func (t *laneTable) bucket(hash uint32) **lane {
	mask := uint32(1)<<bits.Len(uint(t.buckets.n-1)) - 1
	i := hash & mask
	if int(i) >= t.buckets.n {
		i &= mask >> 1
	}
	return t.buckets.at(int(i))
}

// add adds a lane, whose name and hash are set.
func (t *laneTable) add(l *lane) {
	if t.count++; t.count > t.buckets.n {
		t.grow()
	}
	b := t.bucket(l.hash)
	l.next, *b = *b, l
}

// remove removes a lane.
func (t *laneTable) remove(l *lane) {
	b := t.bucket(l.hash)
	for *b != l {
		b = &(*b).next
	}
	*b, l.next = l.next, nil
	for t.count--; t.count < t.buckets.n/2; {
		t.move(t.buckets.pop())
	}
}

// grow adds a bucket, and moves to it the lanes that now belong there.
func (t *laneTable) grow() {
	t.buckets.push(nil)
	last := t.buckets.n - 1
	if last == 0 {
		return
	}
	split := t.buckets.at(last - 1<<(bits.Len(uint(last))-1))
	all := *split
	*split = nil
	t.move(all)
}

// move adds the lanes of a bucket to the buckets where they belong.
func (t *laneTable) move(bucket *lane) {
	for l := bucket; l != nil; {
		next, b := l.next, t.bucket(l.hash)
		l.next, *b = *b, l
		l = next
	}
}

// all returns all lanes, in no particular order. The table must not be changed meanwhile.
func (t *laneTable) all() iter.Seq[*lane] {
	return func(yield func(*lane) bool) {
		for i := range t.buckets.n {
			for l := *t.buckets.at(i); l != nil; l = l.next {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// scanEnd is where a scan ends that begins at 0.
const scanEnd = 1 << 32

// scan calls a function for the lanes of a bucket, and returns where the scan continues. The table can be
// changed between its calls: a lane that is there all the time is found, perhaps twice. A place in the scan is a
// hash with its bits reversed: so the hashes of a bucket, which end alike, are consecutive places, before and
// after it is split.
func (t *laneTable) scan(at uint64, examine func(*lane)) (next uint64) {
	if t.buckets.n == 0 {
		return scanEnd
	}
	hash, mask := bits.Reverse32(uint32(at)), uint32(1)<<bits.Len(uint(t.buckets.n-1))-1
	if half := (mask + 1) / 2; int(hash&mask|half) >= t.buckets.n {
		mask >>= 1 // the bucket is not split yet
	}
	for l := *t.buckets.at(int(hash & mask)); l != nil; l = l.next {
		examine(l)
	}
	size := uint64(scanEnd) >> bits.Len32(mask)
	return at&^(size-1) + size
}

// withReady returns a lane with ready jobs, nil if there is none. It begins where the last one was, so
// that a flush does not examine the same buckets for each job.
func (t *laneTable) withReady() *lane {
	for range t.buckets.n {
		t.scanned %= t.buckets.n
		for l := *t.buckets.at(t.scanned); l != nil; l = l.next {
			if l.ready.len() > 0 {
				return l
			}
		}
		t.scanned++
	}
	return nil
}
