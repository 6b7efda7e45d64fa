package tube

import (
	"fmt"
	"math"
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
		var valid bool
		if l.after, valid = parseCursor(cursor); !valid {
			l.count = 0
		}
	}
	return l
}

func parseCursor(cursor string) (p position, valid bool) {
	var end byte
	n, _ := fmt.Sscanf(cursor, "%d.%d%c", &p.rank, &p.id, &end)
	return p, n == 2
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
	var jobs []*Job
	if l.state == Ready && t.lanes != nil {
		jobs, ok = m.nextInLanes(t, l.after, l.count+1, limit*lanesPerMove)
	} else {
		jobs, ok = t.queue(l.state).next(&m.slab, l.after, l.count+1, limit*nodesPerMove)
	}
	for _, j := range jobs {
		found = append(found, positionOf(j))
	}
	return found, ok
}

// nodesPerMove is how many jobs of a tree can be examined in the time of one move.
const nodesPerMove = 8

// lanesPerMove is how many lanes can be looked at in that time.
const lanesPerMove = 32

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

// Head returns the first job of a tube in a state: the next one to be reserved,
// the next one to become ready, or the one that was buried first. It returns nil
// if there is none, or for another state.
func (m *Machine) Head(tube string, s State) *Job {
	t := m.tubes[tube]
	if t == nil {
		return nil
	}
	switch s {
	case Ready:
		return m.firstReady(t)
	case Delayed:
		return t.delayed.head(&m.slab)
	case Buried:
		return t.buried.head(&m.slab)
	}
	return nil
}

// firstReady returns the job that a Take would reserve, were the tube not paused; if limits hold
// all of them, the first one by priority and id.
func (m *Machine) firstReady(t *Tube) *Job {
	if t.lanes == nil || t.offers() && m.heldInTube(t) == NotHeld {
		if t.in(Ready) == t.coldIn(Ready) {
			return nil
		}
		return m.nextIn(t)
	}
	if jobs := m.firstReadies(t, 1); len(jobs) > 0 {
		return jobs[0]
	}
	return nil
}

// FirstJobs returns the first n jobs of a tube in a state, in the order in which they would
// come out; none if the state is Reserved or Gone. It stops before a job before which a cold one may come.
func (m *Machine) FirstJobs(tube string, s State, n int) []*Job {
	t := m.tubes[tube]
	if t == nil || s == Reserved || s == Gone {
		return nil
	}
	var jobs []*Job
	if s == Ready && t.lanes != nil {
		jobs = m.firstReadies(t, n)
	} else {
		jobs, _ = t.queue(s).next(&m.slab, start, n, 1)
	}
	for i, j := range jobs {
		if s != Buried && m.coldFirst(t, j) {
			return jobs[:i]
		}
	}
	return jobs
}

// firstReadies returns the first n ready jobs of t, which has groups, by priority and id.
func (m *Machine) firstReadies(t *Tube, n int) []*Job {
	jobs, _ := m.nextInLanes(t, start, n, math.MaxInt)
	return jobs
}

// nextInLanes returns the first n ready jobs of t, which has groups, behind a position, by priority and id. If that takes longer than looking
// at limit lanes, ok is false.
func (m *Machine) nextInLanes(t *Tube, after position, n, limit int) (jobs []*Job, ok bool) {
	var fronts heap[front]
	add := func(q *laneQueue) bool {
		if limit -= q.effort(n); limit < 0 {
			return false
		}
		if j := q.behind(&m.slab, after); j != nil {
			fronts.add(front{q, j})
		}
		return true
	}
	if !add(&t.lanes.plain.ready) {
		return nil, false
	}
	for l := range t.lanes.byName.all() {
		if !add(&l.ready) {
			return nil, false
		}
	}
	for len(jobs) < n && fronts.len() > 0 {
		first := fronts.take()
		jobs = append(jobs, first.job)
		if j := first.queue.behind(&m.slab, positionOf(first.job)); j != nil {
			fronts.add(front{first.queue, j})
		}
	}
	return jobs, true
}

// front is a queue and one of its jobs.
type front struct {
	queue *laneQueue
	job   *Job
}

func (f front) before(other front) bool { return before(f.job, other.job) }
