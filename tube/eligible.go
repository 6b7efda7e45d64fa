package tube

// eligible is the lanes from which a job can be taken, by place. Lanes without reserved jobs mostly come
// behind all others: they are in a list, where adding and removing takes the same time for any number of
// them. The others are in a heap.
type eligible struct {
	first, last *lane // the list, linked by lane.before and lane.after
	heap        laneHeap
}

// place is where a lane is among the eligible ones: by the priority of its next job, then by its
// load, thousandths of its reserved jobs by its weight, then by when it had its last turn.
type place struct {
	rank int64
	load uint64
	turn uint64
	lane *lane
}

func (p *place) before(q *place) bool {
	switch {
	case p.rank != q.rank:
		return p.rank < q.rank
	case p.load != q.load:
		return p.load < q.load
	}
	return p.turn < q.turn
}

// set adds a lane, or moves it to another place.
func (e *eligible) set(p place) {
	l := p.lane
	if l.listed {
		e.unlink(l)
	}
	if l.pos < 0 && p.load == 0 && !l.isPlain() && (e.last == nil || e.last.place().before(&p)) {
		e.link(l, p.rank)
	} else {
		e.heap.set(p)
	}
}

// remove removes a lane, if it is there.
func (e *eligible) remove(l *lane) {
	if l.listed {
		e.unlink(l)
	} else if l.pos >= 0 {
		e.heap.remove(l)
	}
}

// next returns the first lane, nil if there is none.
func (e *eligible) next() *lane {
	switch {
	case len(e.heap) == 0:
		return e.first
	case e.first == nil, e.heap[0].before(e.first.place()):
		return e.heap[0].lane
	}
	return e.first
}

// forgetTurn moves the plain lane, if it is there, to where it belongs without a turn.
func (e *eligible) forgetTurn(l *lane) {
	if l.pos >= 0 {
		p := e.heap[l.pos]
		p.turn = 0
		e.heap.set(p)
	}
}

// link adds a lane at the end of the list.
func (e *eligible) link(l *lane, rank int64) {
	l.listed, l.rank, l.before, l.after = true, rank, e.last, nil
	if e.last == nil {
		e.first = l
	} else {
		e.last.after = l
	}
	e.last = l
}

// unlink removes a lane from the list.
func (e *eligible) unlink(l *lane) {
	if l.before == nil {
		e.first = l.after
	} else {
		l.before.after = l.after
	}
	if l.after == nil {
		e.last = l.before
	} else {
		l.after.before = l.before
	}
	l.listed, l.before, l.after = false, nil, nil
}

// place returns the place of a lane that is in the list.
func (l *lane) place() *place { return &place{rank: l.rank, turn: l.turn} }

// isEligible reports whether l is among the eligible lanes.
func (l *lane) isEligible() bool { return l.listed || l.pos >= 0 }

// laneHeap is a heap of lanes in which each node has up to four children, the next lane first. With heap, a change
// among 1,000 lanes would take 60 ns instead of 40, because that calls before.
type laneHeap []place

// set adds a lane, or moves it to another place.
func (h *laneHeap) set(p place) {
	i := int(p.lane.pos)
	if i < 0 {
		i = len(*h)
		*h = append(*h, p)
	}
	if i > 0 && p.before(&(*h)[(i-1)/4]) {
		h.up(i, p)
	} else {
		h.down(i, p)
	}
}

// remove removes a lane.
func (h *laneHeap) remove(l *lane) {
	i, last := int(l.pos), len(*h)-1
	p := (*h)[last]
	(*h)[last] = place{}
	*h = (*h)[:last]
	if l.pos = -1; i < last {
		p.lane.pos = int32(i)
		h.set(p)
	}
}

// up puts p where it belongs between the root and index i, which is free.
func (h laneHeap) up(i int, p place) {
	for i > 0 && p.before(&h[(i-1)/4]) {
		h[i] = h[(i-1)/4]
		h[i].lane.pos = int32(i)
		i = (i - 1) / 4
	}
	h[i] = p
	p.lane.pos = int32(i)
}

// down puts p where it belongs at index i, which is free, or below.
func (h laneHeap) down(i int, p place) {
	for {
		child := 4*i + 1
		for c := child + 1; c < min(4*i+5, len(h)); c++ {
			if h[c].before(&h[child]) {
				child = c
			}
		}
		if child >= len(h) || !h[child].before(&p) {
			break
		}
		h[i] = h[child]
		h[i].lane.pos = int32(i)
		i = child
	}
	h[i] = p
	p.lane.pos = int32(i)
}
