package tube

import "slices"

// idsPerPart is how many ids a part of an idQueue can have.
const idsPerPart = 4096

// idQueue is a queue of job ids. They are in parts, because a slice of a million ids would
// stop everything else whenever it grows.
type idQueue struct {
	parts [][]uint64 // none is empty
	n     int
}

func (q *idQueue) len() int { return q.n }

// add adds an id behind all others.
func (q *idQueue) add(id uint64) {
	last := len(q.parts) - 1
	if last < 0 || len(q.parts[last]) == cap(q.parts[last]) {
		q.parts = append(q.parts, make([]uint64, 0, min(idsPerPart, max(q.n, 16))))
		last++
	}
	q.parts[last] = append(q.parts[last], id)
	q.n++
}

// take removes and returns the first ids: at most limit, perhaps fewer than there are, but at
// least one if there is any. They belong to the caller.
func (q *idQueue) take(limit int) (ids []uint64) {
	if q.n == 0 {
		return nil
	}
	first := q.parts[0]
	if ids = slices.Clip(first[:min(limit, len(first))]); len(ids) < len(first) {
		q.parts[0] = first[len(ids):]
	} else {
		q.parts[0] = nil
		q.parts = q.parts[1:]
	}
	q.n -= len(ids)
	return ids
}

// putBack adds ids before all others.
func (q *idQueue) putBack(ids []uint64) {
	if len(ids) > 0 {
		q.parts = slices.Insert(q.parts, 0, slices.Clone(ids))
		q.n += len(ids)
	}
}
