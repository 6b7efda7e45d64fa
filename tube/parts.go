package tube

// parts is a list that grows and shrinks at its end. It is stored in parts, because a slice of a
// million entries would stop everything else whenever it grows.
type parts[T any] struct {
	list [][]T // all but the last have perPart entries
	n    int
}

const perPart = 4096

func (p *parts[T]) at(i int) *T { return &p.list[uint(i)/perPart][uint(i)%perPart] }

func (p *parts[T]) push(x T) {
	if p.n == len(p.list)*perPart {
		p.list = append(p.list, nil)
	}
	last := &p.list[len(p.list)-1]
	*last = append(*last, x)
	p.n++
}

func (p *parts[T]) pop() T {
	var none T
	p.n--
	at := p.at(p.n)
	x := *at
	*at = none
	last, n := uint(p.n)/perPart, uint(p.n)%perPart
	p.list[last] = p.list[last][:n]
	if n == 0 && last > 0 { // the first part stays: many lists are often empty
		p.list[last] = nil
		p.list = p.list[:last]
	}
	return x
}
