package tube

// eligible is a heap of lanes in which each node has up to four children, the next lane first.
type eligible []place

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
	i := int(p.lane.pos)
	if i < 0 {
		i = len(*e)
		*e = append(*e, p)
	}
	if i > 0 && p.before(&(*e)[(i-1)/4]) {
		e.up(i, p)
	} else {
		e.down(i, p)
	}
}

// forgetTurn moves a lane, if it is there, to where it belongs without a turn.
func (e *eligible) forgetTurn(l *lane) {
	if l.pos >= 0 {
		p := (*e)[l.pos]
		p.turn = 0
		e.set(p)
	}
}

// remove removes a lane.
func (e *eligible) remove(l *lane) {
	i, last := int(l.pos), len(*e)-1
	p := (*e)[last]
	(*e)[last] = place{}
	*e = (*e)[:last]
	if l.pos = -1; i < last {
		p.lane.pos = int32(i)
		e.set(p)
	}
}

// up puts p where it belongs between the root and index i, which is free.
func (e eligible) up(i int, p place) {
	for i > 0 && p.before(&e[(i-1)/4]) {
		e[i] = e[(i-1)/4]
		e[i].lane.pos = int32(i)
		i = (i - 1) / 4
	}
	e[i] = p
	p.lane.pos = int32(i)
}

// down puts p where it belongs at index i, which is free, or below.
func (e eligible) down(i int, p place) {
	for {
		child := 4*i + 1
		for c := child + 1; c < min(4*i+5, len(e)); c++ {
			if e[c].before(&e[child]) {
				child = c
			}
		}
		if child >= len(e) || !e[child].before(&p) {
			break
		}
		e[i] = e[child]
		e[i].lane.pos = int32(i)
		i = child
	}
	e[i] = p
	p.lane.pos = int32(i)
}
