package redis

import (
	"sync/atomic"

	"redstalk/storage"
)

// search is a take from tubes of several places: of several partitions, or more of
// one than a call looks at. It looks at the best ready job of each, and takes the best
// of these, if it still comes before the second best: else somebody was quicker, and it
// looks again. It looks in all partitions at the same time, and in the places of one
// partition in turn, so that others wait for one place only.
//
// When there is none at all, and whoever asks will wait, it looks once more and
// has each partition, in the same call, note that the instance is to be told of
// the next one.
type search struct {
	trip   *trip
	op     *storage.Op
	places []place
	wait   bool // this round is the one before waiting
	rounds int

	heads []head       // of the places, in this round
	left  atomic.Int32 // of these, not known
}

// place is some tubes of one partition, and what a search may find there.
type place struct {
	at    int // partition
	tubes []string
}

// head is the best ready job of a place.
type head struct {
	err   error
	found bool
	pri   uint32
	id    uint64
}

// maxRounds is after how many rounds in vain the best is taken whatever came
// meanwhile.
const maxRounds = 16

func newSearch(t *trip, op *storage.Op) *search {
	op.Answer = storage.Answer{}
	s := &search{trip: t, op: op}
	for _, name := range op.Tubes {
		s.add(placeOf(name, len(t.store.parts)), name)
	}
	return s
}

func (s *search) add(at int, name string) {
	for i := len(s.places) - 1; i >= 0 && i >= len(s.places)-len(s.trip.store.parts); i-- {
		if its := &s.places[i]; its.at == at && len(its.tubes) < maxTubes {
			its.tubes = append(its.tubes, name)
			return
		}
	}
	s.places = append(s.places, place{at, []string{name}})
}

// nextRound begins a round. Partitions that fail are left out, unless none of the
// others has a job and nobody waits for one.
func (s *search) nextRound(out dispatch) {
	s.rounds++
	heads := make([]head, len(s.places)) // of this round only: what fails may answer later
	s.heads = heads
	asked, n := make([][]int, len(out)), 0 // the places to ask, by partition
	for i := range s.places {
		at := s.places[i].at
		if s.trip.store.parts[at].ailing.Load() && (!s.wait || s.op.Wait) {
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
	for at, its := range asked {
		if len(its) > 0 {
			out[at] = append(out[at], s.ask(its))
		}
	}
}

// ask returns the unit that finds out what is best in the first of some places of one
// partition. When it is done it has the others asked.
func (s *search) ask(its []int) *unit {
	p, h, wait := &s.places[its[0]], &s.heads[its[0]], s.wait && s.op.Wait
	return &unit{
		since:  s.trip.since,
		upkeep: func(c *call) { encodeBest(c, p, wait, h) },
		after:  func(err error) { s.asked(its, err) },
	}
}

// asked is called when the first of some places of one partition has been asked. If that
// failed the others are not asked.
func (s *search) asked(its []int, err error) {
	if err != nil {
		for _, i := range its {
			s.heads[i].err = err
		}
		s.seen(len(its))
		return
	}
	if rest := its[1:]; len(rest) > 0 {
		s.trip.store.parts[s.places[rest[0]].at].carryOut(nil, s.ask(rest))
	}
	s.seen(1)
}

// seen is called when n more heads are known, and when all are decides.
func (s *search) seen(n int) {
	if s.left.Add(int32(-n)) > 0 {
		return
	}
	best, second, err := s.rank()
	out := make(dispatch, len(s.trip.store.parts))
	if best >= 0 {
		s.takeFrom(best, second, out)
	} else {
		s.none(err, out)
	}
	s.trip.store.send(out)
}

// none is for a round that has found no job, perhaps because of an error.
func (s *search) none(err error, out dispatch) {
	switch {
	case !s.wait && (err != nil || s.op.Wait):
		s.wait = true
		s.nextRound(out)
	case err != nil && !s.op.Wait:
		s.op.Answer = storage.Answer{Err: err}
		s.trip.advance(out)
	default:
		s.op.Answer = storage.Answer{NotFound: true, Soon: s.trip.store.soon(s.op.Holder, several)}
		s.trip.advance(out)
	}
}

// rank returns the place with the best job, negative if there is none, and the
// second best job.
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

func (h *head) before(other *head) bool {
	return h.pri < other.pri || h.pri == other.pri && h.id < other.id
}

// takeFrom takes the best job of a place, if it comes before another.
func (s *search) takeFrom(best int, second *head, out dispatch) {
	at := s.places[best].at
	ops := []storage.Op{{Kind: storage.Take, Holder: s.op.Holder, Tubes: s.places[best].tubes, Bound: s.op.Bound}}
	u := &unit{since: s.trip.since, batch: &storage.Batch{Ops: ops}}
	if s.rounds < maxRounds {
		u.limit = second
	}
	u.batch.Done = func() { s.taken(&ops[0].Answer) }
	out[at] = append(out[at], u)
}

// taken ends the search, or begins another round if somebody was quicker.
func (s *search) taken(a *storage.Answer) {
	out := make(dispatch, len(s.trip.store.parts))
	if a.NotFound && s.rounds < maxRounds && s.op.Bound == 0 { // else it may be too long
		s.wait = false
		s.nextRound(out)
	} else {
		if s.op.Answer = *a; a.NotFound {
			s.op.Answer.Soon = s.trip.store.soon(s.op.Holder, several)
		}
		s.trip.advance(out)
	}
	s.trip.store.send(out)
}
