package tube

import "slices"

// idsPerPart is how many ids a part of an idQueue has room for.
const idsPerPart = 4096

// idQueue is ids of jobs in the order in which they came. It has them in parts, since a million
// in one slice would hold everybody up whenever that grows.
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

// take removes the first ids and returns them: up to most of them, perhaps fewer than there are,
// but one if there is any. They are the caller's.
func (q *idQueue) take(most int) (ids []uint64) {
	if q.n == 0 {
		return nil
	}
	first := q.parts[0]
	if ids = slices.Clip(first[:min(most, len(first))]); len(ids) < len(first) {
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
