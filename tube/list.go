package tube

import (
	"fmt"
	"slices"
)

// MaxListed is the largest number of jobs in a page of a listing.
const MaxListed = 1000

// Listing is a page of the jobs of a tube in a state, in the order in which they would come
// out. It is made in parts, because reserved jobs, and some others, are not sorted.
type Listing struct {
	tube  string
	state State
	after position
	count int  // the largest number of jobs in the page
	begun bool // whether scan has begun
	scan  scan
	found heap[lastFirst] // the first count+1 jobs behind after that were seen so far
}

// NewListing returns the page of up to count jobs that begins behind a cursor; "" is the
// beginning. An invalid cursor gives an empty page.
func NewListing(tube string, s State, cursor string, count int) *Listing {
	l := &Listing{tube: tube, state: s, after: start, count: min(count, MaxListed)}
	if cursor != "" {
		var end byte
		if n, _ := fmt.Sscanf(cursor, "%d.%d%c", &l.after.rank, &l.after.id, &end); n != 2 {
			l.count = 0
		}
	}
	return l
}

// ListSome does a part of a page. limit and work are as with FlushSome. At the end it returns
// the jobs of the page, and the cursor of the next page; "" if there are no more jobs.
func (m *Machine) ListSome(now Instant, l *Listing, limit int) (jobs []JobStats, cursor string, work int, ended bool) {
	t := m.tubes[l.tube]
	if t == nil || l.count == 0 || l.state == Gone {
		return nil, "", 0, true
	}
	if !l.begun {
		if found, ok := m.listAtOnce(t, l, limit); ok {
			jobs, cursor = m.page(now, l, found)
			return jobs, cursor, len(jobs), true
		}
		l.begun, l.scan = true, m.beginScan()
	}
	slots := l.scan.next
	ended = l.scan.pass(&m.slab, limit*slotsPerMove, func(j *Job) bool {
		if m.tubeOf(j) == t && j.state == l.state {
			l.add(positionOf(j))
		}
		return true
	})
	work = int(l.scan.next-slots) / slotsPerMove
	if ended {
		found := make([]position, l.found.len())
		for i := range slices.Backward(found) {
			found[i] = l.found.take().position
		}
		jobs, cursor = m.page(now, l, found)
	}
	return jobs, cursor, work + len(jobs), ended
}

// listAtOnce finds the jobs of a page and one more, unless that can be much work.
func (m *Machine) listAtOnce(t *Tube, l *Listing, limit int) (found []position, ok bool) {
	if l.state == Reserved {
		return nil, t.reserved == 0
	}
	if l.state == Ready && t.lanes != nil {
		return nil, false
	}
	jobs, ok := t.queue(l.state).next(&m.slab, l.after, l.count+1, limit*nodesPerMove)
	for _, j := range jobs {
		found = append(found, positionOf(j))
	}
	return found, ok
}

// nodesPerMove is how many jobs of a tree can be examined in the time of one move.
const nodesPerMove = 8

// add adds a position to the page, if it is behind the cursor and among the first.
func (l *Listing) add(p position) {
	switch {
	case !l.after.before(p):
	case l.found.len() <= l.count:
		l.found.add(lastFirst{p})
	case p.before(l.found.first().position):
		l.found.fix(0, lastFirst{p})
	}
}

// page returns a page. found are the positions of its jobs when they were found, and of one
// more if there is one. Jobs that have since left the state are omitted.
func (m *Machine) page(now Instant, l *Listing, found []position) (jobs []JobStats, cursor string) {
	if len(found) > l.count {
		found = found[:l.count]
		last := found[l.count-1]
		cursor = fmt.Sprintf("%d.%d", last.rank, last.id)
	}
	jobs = make([]JobStats, 0, len(found))
	for _, p := range found {
		if j := m.Find(p.id); j != nil && j.state == l.state && m.tubeOf(j).name == l.tube {
			stats := m.jobStats(now, j)
			stats.Size = int(j.size)
			jobs = append(jobs, stats)
		}
	}
	return jobs, cursor
}

// lastFirst is a position in a heap that has the last one first.
type lastFirst struct{ position }

func (p lastFirst) before(other lastFirst) bool { return other.position.before(p.position) }
