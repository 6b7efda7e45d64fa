package limits

import (
	"cmp"
	"slices"
	"time"
)

// DefaultUnread is how many bytes may lie unread unless somebody says otherwise.
const DefaultUnread = 1 << 30

// Check is how often it is looked whether clients leave too much unread. For about twice as
// long it may be more than the bound.
const Check = time.Second

// A Reader is a client that has something to read. Readers are compared: that of the same
// client is equal to the one before.
type Reader interface {
	// Unread returns how many bytes are kept for the client, and how many it has read of
	// what was kept, since it came.
	Unread() (bytes int64, read uint64)

	// GiveWay has the client cut off. It does not block.
	GiveWay()
}

// source is a listener with its readers.
type source struct{ readers func() []Reader }

// Join has the readers of a listener bounded together with those of all others, until leave.
// readers returns those that have something to read.
func (b *Bounds) Join(readers func() []Reader) (leave func()) {
	if b == nil || b.guard.most == 0 {
		return func() {}
	}
	src := &source{readers}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sources[src] = struct{}{}
	if b.stop == nil {
		b.stop = make(chan struct{})
		go b.run(b.stop)
	}
	return func() { b.part(src) }
}

func (b *Bounds) part(src *source) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sources, src)
	if len(b.sources) == 0 && b.stop != nil {
		close(b.stop)
		b.stop = nil
	}
}

// run looks at the readers until stop is closed. However late it is to look, there is no less
// than Check from one look to the next: who reads slowly must have had the time to.
func (b *Bounds) run(stop <-chan struct{}) {
	next := time.NewTimer(Check)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			b.check()
			next.Reset(Check)
		case <-stop:
			return
		}
	}
}

// check has those give way who must.
func (b *Bounds) check() {
	for _, r := range b.over() {
		r.GiveWay()
	}
	b.mu.Lock()
	gone := b.crowds.gone(b.connections.Load())
	b.mu.Unlock()
	if gone {
		b.free()
	}
}

// over asks all sources, and returns who must.
func (b *Bounds) over() []Reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []unread
	for src := range b.sources {
		for _, r := range src.readers() {
			bytes, read := r.Unread()
			all = append(all, unread{r, bytes, read})
		}
	}
	return b.guard.inspect(all)
}

// unread is what one client has to read at a moment.
type unread struct {
	reader Reader
	bytes  int64
	read   uint64
}

// guard says who has to give way.
type guard struct {
	most   int64
	before map[Reader]uint64 // what they had read when there was too much; nil if there was not
}

// inspect returns who has to give way, so that what all have unread is within the bound. At
// first that is nobody: who reads something until the next time stays longer than who reads
// nothing. Among equals those with most unread go first.
func (g *guard) inspect(all []unread) (over []Reader) {
	sum := int64(0)
	for _, r := range all {
		sum += r.bytes
	}
	before := g.before
	if g.before = nil; sum <= g.most {
		return nil
	}
	g.before = make(map[Reader]uint64, len(all))
	for _, r := range all {
		g.before[r.reader] = r.read
	}
	if before == nil {
		return nil
	}
	reads := func(r unread) int {
		if read, known := before[r.reader]; !known || r.read > read {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b unread) int {
		return cmp.Or(cmp.Compare(reads(a), reads(b)), cmp.Compare(b.bytes, a.bytes))
	})
	for _, r := range all {
		if sum <= g.most {
			break
		}
		sum -= r.bytes
		over = append(over, r.reader)
	}
	return over
}
