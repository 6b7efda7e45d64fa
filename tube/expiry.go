package tube

import "time"

// expiries has the jobs that can expire, by when. A job that was reserved or buried at that time
// is not in it any more.
type expiries struct {
	*base
	heap  heap[expiry]
	place map[uint64]uint32 // in the heap, by the ids of jobs
	alarm alarm
}

type expiry struct {
	at Instant
	id uint64
}

func newExpiries(b *base) expiries {
	place := make(map[uint64]uint32)
	moved := func(x expiry, to int) {
		if to < 0 {
			delete(place, x.id)
		} else {
			place[x.id] = uint32(to)
		}
	}
	return expiries{base: b, heap: heap[expiry]{moved: moved}, place: place}
}

func (e expiry) before(other expiry) bool {
	return e.at < other.at || e.at == other.at && e.id < other.id
}

// expiresAt returns when a job expires that is put now, and due after wait; 0 if never. own is
// what the put says, p the policy of its tube, which can be nil.
func expiresAt(now Instant, p *Policy, own Lifetime, wait time.Duration) Instant {
	if own == NoLifetime && p != nil {
		own = p.Expire
	}
	if own.Duration() == 0 {
		return 0
	}
	return inWholeMilliseconds(now.Plus(wait).Plus(own.Duration()))
}

// add adds a job.
func (e *expiries) add(id uint64, at Instant) {
	e.heap.add(expiry{at, id})
	e.rearm()
}

// remove removes a job, if it is there.
func (e *expiries) remove(id uint64) {
	if place, found := e.place[id]; found {
		e.heap.remove(int(place))
		e.rearm()
	}
}

// change changes when a job expires, if it is there. Then sort must be called.
func (e *expiries) change(id uint64, at Instant) {
	if place, found := e.place[id]; found {
		e.heap.at(int(place)).at = at
	}
}

// sort is called when times have changed.
func (e *expiries) sort() {
	e.heap.sort()
	e.rearm()
}

func (e *expiries) rearm() {
	at := Never
	if e.heap.len() > 0 {
		at = e.heap.first().at
	}
	e.alarms.set(&e.alarm, at)
}

// startExpiry lets the time of j begin, which waits for no batch any more. Until then Metadata.Expires is when j would have
// expired had it not waited.
func (m *jobs) startExpiry(now Instant, j *Job, f *Metadata) {
	if f.Expires != 0 {
		f.Expires = inWholeMilliseconds(f.Expires.Plus(now.Until(j.created)))
		m.expiries.add(j.ID, f.Expires)
	}
}

// isOver reports whether the time of j is over.
func (m *jobs) isOver(now Instant, j *Job) bool {
	f := m.metadata.of(j)
	return f.Expires != 0 && f.Expires <= now && f.After == ""
}
