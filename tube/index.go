package tube

// index finds jobs by id. It is a map of pages of successive ids, because jobs of
// about the same age are used at about the same time. A map of single ids would be
// slower: it is as large as the backlog, and never in the processor's cache. It
// would also be larger, unless only few jobs are left of a long range of ids.
type index struct {
	pages map[uint64]*page // by id / perPage
	count int              // jobs
	peak  int              // the largest number of pages since the map was made

	recent *page  // the page that was used last; nil if it is gone
	number uint64 // of recent
}

const (
	pageBits = 5
	perPage  = 1 << pageBits
)

// page has the jobs of perPage successive ids.
type page struct {
	refs [perPage]ref
	used int32 // how many of them are not zero
}

// minPeak is the number of pages up to which the map of an index keeps its memory.
// A Go map never shrinks, so a larger one is rebuilt when few pages are left.
const minPeak = 1 << 12

func newIndex() index { return index{pages: make(map[uint64]*page)} }

// page returns the page of an id, nil if there is none.
func (x *index) page(id uint64) *page {
	number := id >> pageBits
	if x.recent != nil && x.number == number {
		return x.recent
	}
	p := x.pages[number]
	if p != nil {
		x.recent, x.number = p, number
	}
	return p
}

// get returns the job of an id, zero if there is none.
func (x *index) get(id uint64) ref {
	if p := x.page(id); p != nil {
		return p.refs[id%perPage]
	}
	return 0
}

// len returns the number of jobs.
func (x *index) len() int { return x.count }

// set adds a job under an id that is not used yet.
func (x *index) set(id uint64, r ref) {
	p := x.page(id)
	if p == nil {
		p = new(page)
		x.recent, x.number = p, id>>pageBits
		x.pages[x.number] = p
		x.peak = max(x.peak, len(x.pages))
	}
	p.refs[id%perPage] = r
	p.used++
	x.count++
}

// delete removes a job, which must exist.
func (x *index) delete(id uint64) {
	p := x.page(id)
	p.refs[id%perPage] = 0
	x.count--
	if p.used--; p.used > 0 {
		return
	}
	delete(x.pages, id>>pageBits)
	x.recent = nil
	if x.peak > minPeak && len(x.pages) < x.peak/8 {
		x.shrink()
	}
}

// shrink rebuilds the map.
func (x *index) shrink() {
	small := make(map[uint64]*page, len(x.pages))
	for number, p := range x.pages {
		small[number] = p
	}
	x.pages, x.peak = small, len(small)
}
