package tube

import (
	"slices"
	"sync/atomic"
	"time"
)

// Flow is what has happened in a tube, counted since this process began. It is lost when
// the tube vanishes.
type Flow struct {
	Puts    uint64              // jobs that came in: put, moved here, or dead letters
	Deletes uint64              // jobs that were deleted or removed, whatever their state
	Parked  uint64              // jobs that were exhausted
	Counts  [NumCounters]uint64 // Reserves: deliveries; and timeouts, releases, buries, kicks
	Waits   Times               // from when a job was due until its first delivery
	Runs    Times               // from the delivery of a job until its holder deleted it
}

// Add adds what g has counted.
func (f *Flow) Add(g *Flow) {
	f.Puts, f.Deletes, f.Parked = f.Puts+g.Puts, f.Deletes+g.Deletes, f.Parked+g.Parked
	for c := range f.Counts {
		f.Counts[c] += g.Counts[c]
	}
	f.Waits.Add(&g.Waits)
	f.Runs.Add(&g.Runs)
}

// timesBounds are the upper bounds of the buckets of Times, but for the last one, which
// has none.
var timesBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
	time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// NumTimes is how many buckets Times has.
const NumTimes = len(timesBounds) + 1

// TimesBounds returns the upper bounds of the buckets of Times, which belong to them. The
// last bucket has none.
func TimesBounds() []time.Duration { return slices.Clone(timesBounds[:]) }

// Times is a histogram of durations.
type Times struct {
	Counts [NumTimes]uint64 // of each bucket by itself
	Sum    time.Duration
}

// Note counts a duration. One less than zero, of clocks that disagree, counts as zero.
func (t *Times) Note(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(timesBounds) && d > timesBounds[i] {
		i++
	}
	t.Counts[i]++
	t.Sum += d
}

// Add adds what u has counted.
func (t *Times) Add(u *Times) {
	for i := range t.Counts {
		t.Counts[i] += u.Counts[i]
	}
	t.Sum += u.Sum
}

// Sub takes off what u has counted, which is a part of it.
func (t *Times) Sub(u *Times) {
	for i := range t.Counts {
		t.Counts[i] -= u.Counts[i]
	}
	t.Sum -= u.Sum
}

// Count returns how many durations were counted.
func (t *Times) Count() (n uint64) {
	for _, c := range t.Counts {
		n += c
	}
	return n
}

// NamedFlow is the flow of one tube.
type NamedFlow struct {
	Tube string
	Flow
}

// Flows are those of all tubes of a server. So many tubes have one of their own, the first
// that ask for one; the others share Rest. The flow of one that vanishes goes to Rest: so no
// count ever shrinks there.
//
// It is not safe for concurrent use. Flows belong to it: they are valid until the tube is
// dropped.
type Flows struct {
	Rest  Flow
	room  *atomic.Int64 // for how many more tubes; may be common to several Flows
	named map[string]*Flow
}

// DefaultNamed is how many tubes have a flow of their own unless something else is said.
const DefaultNamed = 1000

// NewFlows returns Flows in which as many tubes are counted by name as there is room for.
// Several Flows may share the room.
func NewFlows(room *atomic.Int64) *Flows { return &Flows{room: room, named: make(map[string]*Flow)} }

// RoomFor returns room for n tubes.
func RoomFor(n int) *atomic.Int64 {
	room := new(atomic.Int64)
	room.Store(int64(n))
	return room
}

// Open returns the flow of a tube: its own, if it has one or there is room for it.
func (f *Flows) Open(tube string) *Flow {
	if flow := f.named[tube]; flow != nil {
		return flow
	}
	if f.room.Load() <= 0 || f.room.Add(-1) < 0 { // another one may take the last room in between
		return &f.Rest
	}
	flow := new(Flow)
	f.named[tube] = flow
	return flow
}

// Drop is for a tube that has vanished.
func (f *Flows) Drop(tube string) {
	if flow := f.named[tube]; flow != nil {
		f.Rest.Add(flow)
		delete(f.named, tube)
		f.room.Add(1)
	}
}

// Find returns the flow that a tube has of its own, nil if it has none.
func (f *Flows) Find(tube string) *Flow { return f.named[tube] }

// Each calls do with the tubes that have a flow of their own, in no order, until that returns
// false.
func (f *Flows) Each(do func(tube string, flow *Flow) bool) {
	for name, flow := range f.named {
		if !do(name, flow) {
			return
		}
	}
}

// Named returns what the tubes that have a flow of their own have counted, in no order.
func (f *Flows) Named() []NamedFlow {
	all := make([]NamedFlow, 0, len(f.named))
	for name, flow := range f.named {
		all = append(all, NamedFlow{name, *flow})
	}
	return all
}

// span is a duration in 32 bits: milliseconds up to 24 days, whole seconds beyond that.
type span uint32

// inSeconds says that the rest of a span is seconds.
const inSeconds span = 1 << 31

func spanOf(d time.Duration) span {
	switch ms := max(d, 0) / time.Millisecond; {
	case ms < time.Duration(inSeconds):
		return span(ms)
	default:
		return inSeconds | span(min(d/time.Second, time.Duration(inSeconds)-1))
	}
}

func (s span) duration() time.Duration {
	if s&inSeconds != 0 {
		return time.Duration(s&^inSeconds) * time.Second
	}
	return time.Duration(s) * time.Millisecond
}

// dueSince notes that j, which was never delivered, has been due since an instant.
func (j *Job) dueSince(at Instant) { j.since = spanOf(time.Duration(at - j.created)) }

// delivered is when j, which is reserved, was delivered. Its span is from then until its
// TTR last began.
func (j *Job) delivered() Instant {
	return Instant(j.rank) - Instant(j.ttr)*Instant(time.Second) - Instant(j.since.duration())
}

// noteArrow counts that j is about to move along an arrow.
func (m *Machine) noteArrow(now Instant, j *Job, arrow *Arrow) {
	f := m.tubeOf(j).flow
	if arrow.Counts != NoCounter {
		f.Counts[arrow.Counts]++
	}
	switch {
	case arrow.Counts == Reserves:
		if arrow.From == Ready && j.counters[Reserves] == 0 {
			f.Waits.Note(time.Duration(now-j.created) - j.since.duration())
		}
		j.since = 0
	case arrow.Move == Delete:
		f.Deletes++
		if arrow.From == Reserved {
			f.Runs.Note(time.Duration(now - j.delivered()))
		}
	case arrow.Move == Touch:
		j.since = spanOf(time.Duration(now - j.delivered()))
	case arrow.Move == Mature && j.counters[Reserves] == 0:
		j.dueSince(Instant(j.rank))
	case arrow.Move == KickJob && j.counters[Reserves] == 0:
		j.dueSince(now)
	}
}

const (
	// MaxPriorities is among how many priorities of a tube the oldest ready job is looked
	// for. If its ready jobs have more, an older one may be missed.
	MaxPriorities = 16

	// mostNodes is how many jobs are looked at that came out of the order of priorities. If
	// there are more, an older one may be missed.
	mostNodes = 4096
)

// oldestReady returns when the oldest ready job of t was put, Never if none is ready. In the
// ring the first job of each priority is the oldest of it, as ids grow with time.
func (m *Machine) oldestReady(t *Tube) Instant {
	oldest, after := Never, start
	for range MaxPriorities {
		first := t.ready.ring.next(&m.slab, after, 1)
		if len(first) == 0 {
			break
		}
		oldest = min(oldest, first[0].created)
		after = place{rank: first[0].rank, id: 1<<64 - 1}
	}
	for _, self := range t.ready.tree[:min(len(t.ready.tree), mostNodes)] {
		oldest = min(oldest, m.slab.at(self).created)
	}
	return oldest
}

// NameTubes has so many tubes counted by name, the first that there are. It must be called
// before anything is counted.
func (m *Machine) NameTubes(n int) {
	m.flows = NewFlows(RoomFor(n))
	for _, t := range m.order {
		t.flow = m.flows.Open(t.name)
	}
}

// Flows returns what the tubes that are counted by name have counted, in no order, and what
// all others have together.
func (m *Machine) Flows() (named []NamedFlow, rest Flow) { return m.flows.Named(), m.flows.Rest }
