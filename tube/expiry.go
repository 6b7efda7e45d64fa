package tube

import "time"

// Lifetime is how long a job is worth doing, from when it is first due: 1 ms plus that time, which
// is whole milliseconds; or NoLifetime, if that is not set. A time of zero means for ever.
type Lifetime time.Duration

const NoLifetime Lifetime = 0

// LifetimeOf returns a Lifetime of that time.
func LifetimeOf(d time.Duration) Lifetime { return Lifetime(d + time.Millisecond) }

// Duration returns the time; zero is for ever.
func (l Lifetime) Duration() time.Duration {
	if l == NoLifetime {
		return 0
	}
	return time.Duration(l) - time.Millisecond
}

// OnExpire says what happens to a job when its time is over.
type OnExpire uint8

const (
	NoOnExpire OnExpire = iota // the tube's policy decides, or else ExpireDelete
	ExpireDelete
	ExpirePark // it is parked as ParkedExpired

	// LastOnExpire is the largest of them.
	LastOnExpire = ExpirePark
)

// expiries has the jobs that can expire, by when. A job that was reserved or buried at that time
// is not in it any more.
type expiries struct {
	heap  heap[expiry]
	place map[uint64]uint32 // in the heap, by the ids of jobs
	alarm alarm
}

type expiry struct {
	at Instant
	id uint64
}

func newExpiries() expiries {
	place := make(map[uint64]uint32)
	moved := func(x expiry, to int) {
		if to < 0 {
			delete(place, x.id)
		} else {
			place[x.id] = uint32(to)
		}
	}
	return expiries{heap: heap[expiry]{moved: moved}, place: place}
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

// expireLater adds a job to the expiries.
func (m *Machine) expireLater(j *Job, at Instant) {
	m.expiries.heap.add(expiry{at, j.ID})
	m.rearmExpiries()
}

// expireNoMore removes a job from the expiries, if it is there.
func (m *Machine) expireNoMore(j *Job) {
	if place, found := m.expiries.place[j.ID]; found {
		m.expiries.heap.remove(int(place))
		m.rearmExpiries()
	}
}

// reorderExpiries is called when times in the expiries have changed.
func (m *Machine) reorderExpiries() {
	m.expiries.heap.sort()
	m.rearmExpiries()
}

func (m *Machine) rearmExpiries() {
	at := Never
	if m.expiries.heap.len() > 0 {
		at = m.expiries.heap.first().at
	}
	m.alarms.set(&m.expiries.alarm, at)
}

// isOver reports whether the time of j is over.
func (m *Machine) isOver(now Instant, j *Job) bool {
	f := m.metadataOf(j)
	return f.Expires != 0 && f.Expires <= now && f.After == ""
}

// startExpiry lets the time of j begin, which waits for no batch any more. Until then Metadata.Expires is when j would have
// expired had it not waited.
func (m *Machine) startExpiry(now Instant, j *Job, f *Metadata) {
	if f.Expires != 0 {
		f.Expires = inWholeMilliseconds(f.Expires.Plus(now.Until(j.created)))
		m.expireLater(j, f.Expires)
	}
}

// inWholeMilliseconds rounds up, to Latest at most.
func inWholeMilliseconds(t Instant) Instant {
	const ms = Instant(time.Millisecond)
	return min((t+ms-1)/ms*ms, Latest)
}

// fireExpiry does what is due for the job that expires first. One that is reserved expires if it
// comes back, and a buried one does not expire.
func (m *Machine) fireExpiry(now Instant) {
	j := m.Find(m.expiries.heap.first().id)
	m.expireNoMore(j)
	if j.state == Reserved || j.state == Buried {
		return
	}
	id, size := j.ID, j.size
	m.dequeue(j)
	if m.lapse(now, j); j.ID != id {
		m.journalRemoved(removed{id, size})
	} else {
		m.recount(now, j)
		m.journalChanged(j)
		m.sendIfPending(now, j)
	}
	m.journalBatches()
}

// lapse deletes or parks j, which is in no queue, because its time is over.
func (m *Machine) lapse(now Instant, j *Job) {
	t, rules := m.tubeOf(j), m.rulesOf(j)
	t.expired++
	t.flow.Expired++
	if rules.OnExpire == ExpirePark {
		m.park(j, ParkedExpired, rules.Dead)
		return
	}
	t.deletes++
	t.flow.Deletes++
	m.forget(now, j)
}
