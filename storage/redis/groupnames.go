package redis

import (
	"slices"
	"time"

	"redstalk/storage"
)

const (
	// mostNames is how many names of groups are kept of those that were found for a page.
	mostNames = 1 << 15

	// namesAge is how long names are used after they were found. Meanwhile other instances can put jobs
	// into further groups.
	namesAge = 5 * time.Second
)

// groupNames are the names of groups of a tube that find-groups has found, for a page and the next ones. Redis has the
// groups with a lone job in no order, so it looks at all of them to find some.
type groupNames struct {
	tube     string
	most     int // how many names are kept: the first ones
	names    []string
	unsorted bool
	upto     string // groups behind this name may be missing; "" if none is
	after    string // the last group of the page before; "" while a page is read
	since    time.Time
}

// add adds a name.
func (n *groupNames) add(name string) {
	if n.upto != "" && name > n.upto {
		return
	}
	n.names, n.unsorted = append(n.names, name), true
	if len(n.names) > 2*n.most {
		n.sort()
	}
}

// sort orders the names, and drops the last ones if they are too many.
func (n *groupNames) sort() {
	if !n.unsorted {
		return
	}
	slices.Sort(n.names)
	if n.names = slices.Compact(n.names); len(n.names) > n.most {
		n.names = n.names[:n.most]
		n.upto = n.names[n.most-1]
	}
	n.unsorted = false
}

// behind drops the names up to one, and returns the first of the others, at most limit, and whether there are
// more groups than these. If it returns none but there are, they must be found again.
func (n *groupNames) behind(name string, limit int) (names []string, more bool) {
	n.sort()
	at, found := slices.BinarySearch(n.names, name)
	if found {
		at++
	}
	n.names = n.names[at:]
	limit = min(limit, len(n.names))
	return n.names[:limit], len(n.names) > limit || n.upto != ""
}

func (n *groupNames) isOld() bool { return time.Since(n.since) > namesAge }

// notePut adds the group of a job that this instance puts.
func (n *groupNames) notePut(op *storage.Op) {
	if group := op.Args.Tags.Group; n.tube == op.Tube && group != "" {
		n.add(group)
	}
}

// namesFor returns what a page of a tube behind a cursor begins with: the names that were found for the
// page before, unless they are old, or none.
func (p *partition) namesFor(tube, cursor string) (n *groupNames, found bool) {
	if n = p.groupNames; n.tube == tube && cursor != "" && n.after == cursor && !n.isOld() {
		n.after = ""
		return n, true
	}
	p.groupNames = &groupNames{tube: tube, most: p.mostNames, since: time.Now()}
	return p.groupNames, false
}

// dropOldNames frees names that are not used any more.
func (p *partition) dropOldNames() {
	if p.groupNames.names != nil && p.groupNames.isOld() {
		p.groupNames = &groupNames{}
	}
}
