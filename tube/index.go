package tube

// index finds jobs by id. A Go map keeps its memory when its entries are gone;
// this one is made anew when a large backlog has become small.
type index struct {
	refs map[uint64]ref
	peak int // entries at most since it was made
}

// minPeak is the size below which an index is left as it is.
const minPeak = 1 << 16

func newIndex() index { return index{refs: make(map[uint64]ref)} }

func (x *index) get(id uint64) ref { return x.refs[id] }

func (x *index) len() int { return len(x.refs) }

func (x *index) set(id uint64, r ref) {
	x.refs[id] = r
	x.peak = max(x.peak, len(x.refs))
}

func (x *index) delete(id uint64) {
	delete(x.refs, id)
	if x.peak > minPeak && len(x.refs) < x.peak/8 {
		small := make(map[uint64]ref, len(x.refs))
		for id, r := range x.refs {
			small[id] = r
		}
		x.refs, x.peak = small, len(small)
	}
}
