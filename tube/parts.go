package tube

// parts is a list that grows and shrinks at its end. It is stored in parts, because a slice of a
// million entries would stop everything else whenever it grows.
type parts[T any] struct {
	list [][]T // all but the last have perPart entries
	n    int
}

const perPart = 4096

func (p *parts[T]) at(i int) *T { return &p.list[i/perPart][i%perPart] }

func (p *parts[T]) push(x T) {
	if p.n%perPart == 0 {
		p.list = append(p.list, nil)
	}
	last := &p.list[len(p.list)-1]
	*last = append(*last, x)
	p.n++
}

func (p *parts[T]) pop() T {
	var none T
	p.n--
	x := *p.at(p.n)
	last := p.n / perPart
	if p.n%perPart == 0 {
		p.list[last] = nil
		p.list = p.list[:last]
		return x
	}
	p.list[last][p.n%perPart] = none
	p.list[last] = p.list[last][:p.n%perPart]
	return x
}
