package tube

import (
	"slices"
	"time"
)

// GroupListing is a page of the groups of a tube that GroupStats finds, in the order of their names. It is made in
// parts, because groups are in no order.
type GroupListing struct {
	tube  string
	last  string // the name that was examined last; at first the cursor
	count int    // the largest number of groups in the page
	names *groupNames
	page  []GroupStats
}

// NewGroupListing returns the page of up to count groups of a tube whose names come after a cursor.
func NewGroupListing(tube, cursor string, count int) *GroupListing {
	return &GroupListing{tube: tube, last: cursor, count: min(count, MaxListed)}
}

// ListGroupsSome does a part of a page. limit and work are as with FlushSome. At the end it returns the page, and the
// cursor of the next one; "" if there are no more groups.
func (m *groups) ListGroupsSome(now Instant, l *GroupListing, limit int) (page []GroupStats, next string, work int, ended bool) {
	if l.names == nil {
		l.names = m.listed.namesFor(l, len(m.throttles.order))
	}
	work = m.findNames(l.names, limit)
	for ; work < limit && l.names.found; work++ {
		name, ok := l.names.first()
		if ok && name > l.last {
			s, found := m.GroupStats(now, l.tube, name)
			if found && len(l.page) == l.count {
				next = l.last
				break
			}
			if found {
				l.page, l.last = append(l.page, s), name
			}
		}
		if !ok {
			break
		}
		l.names.drop()
	}
	if ended = l.names.found && work < limit; ended {
		m.listed.keep(now, l.names, next)
	}
	return l.page, next, work, ended
}

// groupNames are names of groups of a tube that were found for a page, and are used for the next ones: so a page
// costs as much with many groups as with few. Groups that come meanwhile are added, see listedGroups.note.
type groupNames struct {
	tube, from string // only names after that
	after      string // the last group of the page before; "" while a page is made

	at        uint64 // where laneTable.scan continues
	throttles int    // how many of Machine.throttles are not examined
	found     bool

	unsorted []string
	sorted   heap[nameList]
	noted    int // names that were added by note
}

const (
	sortedTogether = 2048    // names
	lookedPerMove  = 4       // buckets or throttles that can be examined, or names added, while a job is moved
	mostNoted      = 1 << 17 // names that note adds
	groupNamesAge  = 10 * time.Second
)

// listedGroups has the names for the next page of the list that was begun last; nil if there are none.
type listedGroups struct {
	*base
	names *groupNames
	alarm alarm // when they are dropped
}

// namesFor returns the names with which a page begins.
func (listed *listedGroups) namesFor(l *GroupListing, throttles int) *groupNames {
	if n := listed.names; n != nil && n.tube == l.tube && n.after == l.last && l.last != "" {
		n.after = ""
		return n
	}
	listed.names = &groupNames{tube: l.tube, from: l.last, throttles: throttles}
	return listed.names
}

// keep keeps names for the page behind a cursor.
func (listed *listedGroups) keep(now Instant, n *groupNames, cursor string) {
	if n.after = cursor; n != listed.names {
		return
	}
	at := now.Plus(groupNamesAge)
	if cursor == "" {
		listed.names, at = nil, Never
	}
	listed.alarms.set(&listed.alarm, at)
}

// drop is called when the names have not been used for long.
func (listed *listedGroups) drop() {
	listed.names = nil
	listed.alarms.set(&listed.alarm, Never)
}

// note is called when there is something new about a group.
func (listed *listedGroups) note(tube, group string) {
	n := listed.names
	if n == nil || n.tube != tube {
		return
	}
	n.add(group)
	if n.noted++; n.noted > mostNoted {
		listed.names = nil
	}
}

// findNames examines further lanes and throttles, and returns how much work that was. A throttle that is removed from
// throttles.order is replaced by the last one, which was examined.
func (m *groups) findNames(n *groupNames, limit int) (work int) {
	looked := 0
	if t := m.tubes[n.tube]; t == nil || t.lanes == nil {
		n.at = scanEnd
	} else {
		for looked < limit*lookedPerMove && n.at < scanEnd {
			n.at = t.lanes.byName.scan(n.at, func(l *lane) { looked += n.add(l.name) })
			looked++
		}
	}
	n.throttles = min(n.throttles, len(m.throttles.order))
	for ; looked < limit*lookedPerMove && n.throttles > 0; looked++ {
		n.throttles--
		if th := m.throttles.order[n.throttles]; th.tube == n.tube {
			looked += n.add(th.group)
		}
	}
	n.found = n.at == scanEnd && n.throttles == 0
	return looked / lookedPerMove
}

// add adds a name, and returns 1 if it is needed.
func (n *groupNames) add(name string) int {
	if name <= n.from {
		return 0
	}
	if n.unsorted = append(n.unsorted, name); len(n.unsorted) == sortedTogether {
		n.sort()
	}
	return 1
}

// sort makes a sorted list of the unsorted names.
func (n *groupNames) sort() {
	if len(n.unsorted) > 0 {
		slices.Sort(n.unsorted)
		n.sorted.add(n.unsorted)
		n.unsorted = nil
	}
}

// first returns the first name; false if there is none. The same name can follow again.
func (n *groupNames) first() (name string, ok bool) {
	if n.sort(); n.sorted.len() == 0 {
		return "", false
	}
	return n.sorted.first()[0], true
}

// drop drops the first name.
func (n *groupNames) drop() {
	if list := n.sorted.first(); len(list) > 1 {
		n.sorted.fix(0, list[1:])
	} else {
		n.sorted.take()
	}
}

// nameList is a sorted list that is not empty.
type nameList []string

func (l nameList) before(other nameList) bool { return l[0] < other[0] }
