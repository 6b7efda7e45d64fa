package redis

import (
	"slices"
	"sync/atomic"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
)

// search is for consecutive takes from the same tubes in several groups: of several partitions,
// or more tubes of one partition than a call examines. It reads the best ready job of each
// group, and takes jobs from the group with the best one, as long as they come before the
// second best. Otherwise there are better jobs elsewhere by now, or another client was quicker,
// and for the takes that are left it starts another pass. All partitions are asked at the same
// time, the groups of one partition one after the other, so that other clients wait for one
// group only.
//
// Takes with storage.Op.First are alike, but the place of a tube among the tubes of the take
// stands for the priority of its jobs.
//
// If there is no job at all, and the client will wait, it makes one more pass in which each
// partition registers the instance for a wake-up, in the same call.
type search struct {
	trip   *trip
	open   []*storage.Op // unanswered takes, at least one; they differ only in their holders
	groups []tubeGroup
	wait   bool // this pass is the last one before waiting
	passes int  // since a job was taken

	heads []head       // of the groups, in this pass
	left  atomic.Int32 // how many of these are unknown
}

// tubeGroup is some tubes of one partition.
type tubeGroup struct {
	partition int
	tubes     []string
	places    []uint32 // of each tube among all tubes of the take
}

const (
	// maxPasses is the number of vain passes after which the best job is taken regardless of
	// others.
	maxPasses = 16

	// searchTogether is the maximum of takes in one search. One call carries them all, unless
	// they are from very many tubes.
	searchTogether = 64
)

// newSearch returns a search for takes that are alike.
func newSearch(t *trip, takes []storage.Op) *search {
	s := &search{trip: t}
	for i := range takes {
		takes[i].Answer = storage.Answer{}
		s.open = append(s.open, &takes[i])
	}
	for place, name := range takes[0].Tubes {
		s.add(schema.PartitionOf(name, len(t.store.parts)), name, uint32(place))
	}
	return s
}

// searchedAlike returns how many of ops, which begins with a take, can be in one search.
func searchedAlike(ops []storage.Op) int {
	first, n := &ops[0], 1
	for n < min(len(ops), searchTogether) {
		op := &ops[n]
		if op.Kind != storage.Take || op.Wait != first.Wait || op.MaxBytes != first.MaxBytes || op.First != first.First || !slices.Equal(op.Tubes, first.Tubes) {
			break
		}
		n++
	}
	return n
}

func (s *search) add(at int, name string, place uint32) {
	for i := len(s.groups) - 1; i >= 0 && i >= len(s.groups)-len(s.trip.store.parts); i-- {
		if group := &s.groups[i]; group.partition == at && len(group.tubes) < maxTubes {
			group.tubes, group.places = append(group.tubes, name), append(group.places, place)
			return
		}
	}
	s.groups = append(s.groups, tubeGroup{at, []string{name}, []uint32{place}})
}

// nextPass starts a pass. Failing partitions are left out, unless none of the others has a job
// and no client waits for one.
func (s *search) nextPass(out unitsByPartition) {
	s.passes++
	heads := make([]head, len(s.groups)) // of this pass only: late answers must not change later passes
	s.heads = heads
	asked, n := make([][]int, len(out)), 0 // the groups to ask, by partition
	for i := range s.groups {
		at := s.groups[i].partition
		if s.trip.store.parts[at].failing.Load() && (!s.wait || s.waits()) {
			heads[i].err = storage.ErrUnavailable
			continue
		}
		asked[at] = append(asked[at], i)
		n++
	}
	if n == 0 {
		s.none(storage.ErrUnavailable, out)
		return
	}
	s.left.Store(int32(n))
	for at, indexes := range asked {
		if len(indexes) > 0 {
			out[at] = append(out[at], s.ask(indexes))
		}
	}
}

// ask returns the unit that reads the best job of the first of some groups of one partition.
// Then the others are asked.
func (s *search) ask(indexes []int) *unit {
	p, h, wait, first := &s.groups[indexes[0]], &s.heads[indexes[0]], s.wait && s.waits(), s.open[0].First
	return &unit{
		since:      s.trip.since,
		background: func(c *call) { encodeBest(c, p, wait, first, h) },
		after:      func(err error) { s.asked(indexes, err) },
	}
}

// asked is called when the first of some groups of one partition has been asked. After a
// failure the others are not asked.
func (s *search) asked(indexes []int, err error) {
	if err != nil {
		for _, i := range indexes {
			s.heads[i].err = err
		}
		s.seen(len(indexes))
		return
	}
	if rest := indexes[1:]; len(rest) > 0 {
		s.trip.store.parts[s.groups[rest[0]].partition].submitOrFail(nil, s.ask(rest))
	}
	s.seen(1)
}

// seen is called when n more heads are known. When all are, it decides.
func (s *search) seen(n int) {
	if s.left.Add(int32(-n)) > 0 {
		return
	}
	best, second, err := s.rank()
	out := make(unitsByPartition, len(s.trip.store.parts))
	if best >= 0 {
		s.takeFrom(best, second, out)
	} else {
		s.none(err, out)
	}
	s.trip.store.send(out)
}

// waits returns whether the clients will wait if there is no job.
func (s *search) waits() bool { return s.open[0].Wait }

// none ends a pass that has found no job, perhaps because of an error.
func (s *search) none(err error, out unitsByPartition) {
	if !s.wait && (err != nil || s.waits()) {
		s.wait = true
		s.nextPass(out)
		return
	}
	for _, op := range s.open {
		if err != nil && !op.Wait {
			op.Answer = storage.Answer{Err: err}
		} else {
			op.Answer = storage.Answer{NotFound: true, Soon: s.trip.store.soon(op.Holder, several)}
		}
	}
	s.trip.advance(out)
}

// rank returns the group with the best job, negative if there is none, and the second best job.
func (s *search) rank() (best int, second *head, err error) {
	best = -1
	for i := range s.heads {
		h := &s.heads[i]
		switch {
		case h.err != nil:
			err = h.err
		case !h.found:
		case best < 0:
			best = i
		case h.before(&s.heads[best]):
			best, second = i, &s.heads[best]
		case second == nil || h.before(second):
			second = h
		}
	}
	return best, second, err
}

// takeFrom takes the best jobs of a group, as long as they come before another job.
func (s *search) takeFrom(best int, second *head, out unitsByPartition) {
	at, first, tubes := s.groups[best].partition, s.open[0].First, s.groups[best].tubes
	if s.passes >= maxPasses {
		second = nil
	}
	if first && second != nil {
		tubes = s.groups[best].before(second.pri)
	}
	takes := make([]storage.Op, len(s.open))
	for i, op := range s.open {
		takes[i] = storage.Op{Kind: storage.Take, Holder: op.Holder, Tubes: tubes, First: first, Trace: op.Trace, MaxBytes: op.MaxBytes}
	}
	u := &unit{since: s.trip.since, batch: &storage.Batch{Ops: takes}}
	if !first {
		u.limit = second
	}
	u.batch.Done = func() { s.taken(takes) }
	out[at] = append(out[at], u)
}

// taken hands over what was taken, and ends the search or starts another pass for the takes
// that have got nothing.
func (s *search) taken(takes []storage.Op) {
	out := make(unitsByPartition, len(s.trip.store.parts))
	got := s.handOver(takes)
	tooLong := got == 0 && s.open[0].MaxBytes > 0 // perhaps
	switch {
	case got == len(takes):
		s.trip.advance(out)
	case tooLong:
		s.wait = true
		s.none(nil, out)
	case got == 0 && s.passes >= maxPasses:
		s.none(nil, out)
	default:
		if s.wait = false; got > 0 {
			s.passes = 0
		}
		s.nextPass(out)
	}
	s.trip.store.send(out)
}

// handOver answers the takes that have a result, and returns how many. The others stay open.
func (s *search) handOver(takes []storage.Op) (answered int) {
	open := s.open[:0]
	for i, op := range s.open {
		if a := &takes[i].Answer; a.NotFound {
			open = append(open, op)
		} else {
			op.Answer = *a
		}
	}
	s.open = open
	return len(takes) - len(open)
}

// encodeBest requests the best ready job of a group of tubes. With wait, Redis sends this
// instance a wake-up for the next one if there is none. With first it requests the best job of the
// first tube that has one, and the place of that tube.
func encodeBest(c *call, group *tubeGroup, wait, first bool, h *head) {
	read := h.read
	if first {
		read = func(r *reply) {
			if h.read(r); h.found && int(h.pri) < len(group.places) {
				h.pri = group.places[h.pri]
			}
		}
		c.words("first")
	}
	c.add(read, "best", boolArg(wait), len(group.tubes))
	c.ops += len(group.tubes)
	c.addTubes(group.tubes)
}

// before returns the tubes whose place is before another one.
func (g *tubeGroup) before(place uint32) []string {
	n := 0
	for n < len(g.places) && g.places[n] < place {
		n++
	}
	return g.tubes[:n]
}

// read reads the best ready job of a group of tubes.
func (h *head) read(r *reply) {
	if h.found = r.found(); h.found {
		h.pri, h.id = uint32(r.int64()), r.key()
	}
}
