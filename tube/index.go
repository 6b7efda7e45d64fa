package tube

// index finds jobs by id. Ids are given out one after the other, and jobs of
// about the same age are used at about the same time: so it is a map of pages
// of successive ids. It is quicker than a map of ids, which would be as large
// as the backlog and never in the processor's cache, and smaller, but for a
// backlog of a few old jobs out of very many.
type index struct {
	pages map[uint64]*page // by id / perPage
	count int              // jobs
	peak  int              // pages at most since the map was made

	recent *page // the page that was used last, nil if that is gone
	number uint64
}

const (
	pageBits = 5
	perPage  = 1 << pageBits
)

// page is a part of an index.
type page struct {
	refs [perPage]ref
	used int32 // how many of them are not zero
}

// minPeak is the number of pages below which the map of an index is left as it
// is. A Go map keeps its memory when its entries are gone; this one is made
// anew when a large backlog has become small.
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

func (x *index) len() int { return x.count }

// set adds a job whose id has none yet.
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

// delete removes a job that is there.
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

func (x *index) shrink() {
	small := make(map[uint64]*page, len(x.pages))
	for number, p := range x.pages {
		small[number] = p
	}
	x.pages, x.peak = small, len(small)
}
