package limits

import (
	"cmp"
	"slices"
	"time"
)

// DefaultUnread is the default limit of unread bytes.
const DefaultUnread = 1 << 30

// Check is the interval of the checks for unread bytes. For about twice as long, the limit
// can be exceeded.
const Check = time.Second

// A Reader is a client that has something to read. Readers are compared: two Readers of the
// same client must be equal.
type Reader interface {
	// Unread returns how many bytes are buffered for the client, and how many it has read of
	// what was buffered since it connected.
	Unread() (bytes int64, read uint64)

	// GiveWay cuts the client off. It does not block.
	GiveWay()
}

// source is a listener with its readers.
type source struct{ readers func() []Reader }

// Join limits the readers of a listener together with those of all others, until leave is
// called. readers returns those that have something to read.
func (b *Limits) Join(readers func() []Reader) (leave func()) {
	if b == nil || b.guard.max == 0 {
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
	return func() { b.removeSource(src) }
}

func (b *Limits) removeSource(src *source) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sources, src)
	if len(b.sources) == 0 && b.stop != nil {
		close(b.stop)
		b.stop = nil
	}
}

// run checks the readers until stop is closed. However late a check is, at least Check
// passes until the next one: a slow reader must have had the time to read.
func (b *Limits) run(stop <-chan struct{}) {
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

// check makes readers give way, and returns memory if it is time.
func (b *Limits) check() {
	for _, r := range b.excess() {
		r.GiveWay()
	}
	b.mu.Lock()
	gone := b.trimmer.due(b.connections.Load())
	b.mu.Unlock()
	if gone {
		b.trim()
	}
}

// excess asks all sources, and returns the readers that must give way.
func (b *Limits) excess() []Reader {
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

// unread is what one client has to read at one time.
type unread struct {
	reader Reader
	bytes  int64
	read   uint64
}

// guard decides who must give way.
type guard struct {
	max    int64
	before map[Reader]uint64 // what each had read when the limit was exceeded; nil if it was not
}

// inspect returns the readers that must give way so that the unread bytes of the others are
// within the limit. At first there are none: readers that read something until the next
// check stay longer than those that read nothing. Among equals those with most unread bytes
// go first.
func (g *guard) inspect(all []unread) (excess []Reader) {
	sum := int64(0)
	for _, r := range all {
		sum += r.bytes
	}
	before := g.before
	if g.before = nil; sum <= g.max {
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
		if sum <= g.max {
			break
		}
		sum -= r.bytes
		excess = append(excess, r.reader)
	}
	return excess
}
