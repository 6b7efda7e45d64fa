package tube

import (
	"container/heap"
	"time"
)

// expiries has the jobs that can expire, by when. A job that was reserved or buried at that time
// is not in it any more.
type expiries struct {
	heap  expiryHeap
	alarm alarm
}

type expiry struct {
	at Instant
	id uint64
}

// expiryHeap is a container/heap, the earliest first. It knows where each job is.
type expiryHeap struct {
	entries parts[expiry]
	place   map[uint64]uint32
}

func (h *expiryHeap) Len() int { return h.entries.n }

func (h *expiryHeap) Less(i, j int) bool {
	a, b := h.entries.at(i), h.entries.at(j)
	return a.at < b.at || a.at == b.at && a.id < b.id
}

func (h *expiryHeap) Swap(i, j int) {
	a, b := h.entries.at(i), h.entries.at(j)
	*a, *b = *b, *a
	h.place[a.id], h.place[b.id] = uint32(i), uint32(j)
}

// Push is for container/heap only.
func (h *expiryHeap) Push(x any) {
	h.place[x.(expiry).id] = uint32(h.entries.n)
	h.entries.push(x.(expiry))
}

// Pop is for container/heap only.
func (h *expiryHeap) Pop() any {
	x := h.entries.pop()
	delete(h.place, x.id)
	return x
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
	if m.expiries.heap.place == nil {
		m.expiries.heap.place = make(map[uint64]uint32)
	}
	heap.Push(&m.expiries.heap, expiry{at, j.ID})
	m.rearmExpiries()
}

// expireNoMore removes a job from the expiries, if it is there.
func (m *Machine) expireNoMore(j *Job) {
	if place, found := m.expiries.heap.place[j.ID]; found {
		heap.Remove(&m.expiries.heap, int(place))
		m.rearmExpiries()
	}
}

// reorderExpiries is called when times in the expiries have changed.
func (m *Machine) reorderExpiries() {
	heap.Init(&m.expiries.heap)
	m.rearmExpiries()
}

func (m *Machine) rearmExpiries() {
	at := Never
	if m.expiries.heap.Len() > 0 {
		at = m.expiries.heap.entries.at(0).at
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
	j := m.Find(m.expiries.heap.entries.at(0).id)
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
