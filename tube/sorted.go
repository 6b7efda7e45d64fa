package tube

import (
	"cmp"
	"slices"
)

// keyed is an element of a sorted list.
type keyed[K cmp.Ordered] interface{ key() K }

// sorted is a list in the order of keys. It is stored in parts, none of which is
// empty, so that an insertion moves few elements.
type sorted[K cmp.Ordered, T keyed[K]] struct{ parts [][]T }

// maxSortedPart is how many elements a part can have.
const maxSortedPart = 256

// place returns where an element is, or where it would be inserted.
func (l *sorted[K, T]) place(key K) (part, at int, found bool) {
	part, _ = slices.BinarySearchFunc(l.parts, key, func(p []T, key K) int {
		return cmp.Compare(p[len(p)-1].key(), key)
	})
	if part == len(l.parts) {
		if part == 0 {
			return 0, 0, false
		}
		return part - 1, len(l.parts[part-1]), false
	}
	at, found = slices.BinarySearchFunc(l.parts[part], key, func(x T, key K) int { return cmp.Compare(x.key(), key) })
	return part, at, found
}

// find returns an element, the zero value if there is none of that key.
func (l *sorted[K, T]) find(key K) (x T) {
	if part, at, found := l.place(key); found {
		x = l.parts[part][at]
	}
	return x
}

// insert adds an element of a new key.
func (l *sorted[K, T]) insert(x T) {
	part, at, _ := l.place(x.key())
	if len(l.parts) == 0 {
		l.parts = append(l.parts, nil)
	}
	p := l.parts[part]
	if part == len(l.parts)-1 && at == len(p) && at == maxSortedPart {
		l.parts = append(l.parts, []T{x}) // most come in the order of their keys: parts are full then
		return
	}
	p = slices.Insert(p, at, x)
	l.parts[part] = p
	if half := len(p) / 2; len(p) > maxSortedPart {
		l.parts = slices.Insert(l.parts, part+1, slices.Clone(p[half:]))
		clear(p[half:])
		l.parts[part] = p[:half]
	}
}

// remove removes an element and returns it; the zero value if there is none of that key.
func (l *sorted[K, T]) remove(key K) (x T) {
	part, at, found := l.place(key)
	if !found {
		return x
	}
	x = l.parts[part][at]
	l.parts[part] = slices.Delete(l.parts[part], at, at+1)
	if len(l.parts[part]) == 0 {
		l.parts = slices.Delete(l.parts, part, part+1)
	}
	return x
}

// first returns the first element; false if there is none.
func (l *sorted[K, T]) first() (x T, found bool) {
	if len(l.parts) == 0 {
		return x, false
	}
	return l.parts[0][0], true
}

// after returns the elements whose keys come after a cursor, in their order.
func (l *sorted[K, T]) after(cursor K) func(yield func(T) bool) {
	return func(yield func(T) bool) {
		part, at, found := l.place(cursor)
		if found {
			at++
		}
		for ; part < len(l.parts); part, at = part+1, 0 {
			for _, x := range l.parts[part][at:] {
				if !yield(x) {
					return
				}
			}
		}
	}
}
