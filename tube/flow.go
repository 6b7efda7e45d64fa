package tube

import (
	"slices"
	"sync/atomic"
	"time"
)

// Flow counts what happened in a tube since this process began. It is lost when the tube is
// removed.
type Flow struct {
	Puts    uint64              // jobs that were added: put, moved here, or dead letters
	Deletes uint64              // jobs that were deleted or removed, whatever their state
	Parked  uint64              // jobs that were exhausted, or whose time was over
	Expired uint64              // jobs whose time was over: deleted or parked
	Snoozes uint64              // releases that are no failures
	Holds   uint64              // how often ready jobs of a group, or of the tube, began to be held by a limit or a pause of the group
	Counts  [NumCounters]uint64 // Reserves: deliveries; and timeouts, releases, buries, kicks
	Waits   Times               // from when a job is due until its first delivery
	Runs    Times               // from the delivery of a job until its holder deletes it
}

// Add adds the counts of g.
func (f *Flow) Add(g *Flow) {
	f.Puts, f.Deletes, f.Parked = f.Puts+g.Puts, f.Deletes+g.Deletes, f.Parked+g.Parked
	f.Expired, f.Snoozes, f.Holds = f.Expired+g.Expired, f.Snoozes+g.Snoozes, f.Holds+g.Holds
	for c := range f.Counts {
		f.Counts[c] += g.Counts[c]
	}
	f.Waits.Add(&g.Waits)
	f.Runs.Add(&g.Runs)
}

// timesBounds are the upper bounds of the buckets of Times, except the last bucket, which
// has none.
var timesBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
	time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// NumTimes is how many buckets Times has.
const NumTimes = len(timesBounds) + 1

// TimesBounds returns the upper bounds of the buckets of Times; a bound belongs to its bucket.
// The last bucket has no bound.
func TimesBounds() []time.Duration { return slices.Clone(timesBounds[:]) }

// Times is a histogram of durations.
type Times struct {
	Counts [NumTimes]uint64 // of each bucket, not cumulative
	Sum    time.Duration
}

// Observe counts a duration. A negative one, from clocks that disagree, counts as zero.
func (t *Times) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(timesBounds) && d > timesBounds[i] {
		i++
	}
	t.Counts[i]++
	t.Sum += d
}

// Add adds the counts of u.
func (t *Times) Add(u *Times) {
	for i := range t.Counts {
		t.Counts[i] += u.Counts[i]
	}
	t.Sum += u.Sum
}

// Sub subtracts the counts of u, which are part of those of t.
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

// Flows has the flows of all tubes of a server. A limited number of tubes, the first that ask,
// have a flow of their own; the others share Rest. When a tube is removed its flow is added to
// Rest, so no count in Rest ever shrinks.
//
// It is not safe for concurrent use. A Flow that it returns is valid until the tube is
// dropped.
type Flows struct {
	Rest  Flow
	room  *atomic.Int64 // for how many more tubes; several Flows can share it
	named map[string]*Flow
}

// DefaultNamed is how many tubes have a flow of their own by default.
const DefaultNamed = 1000

// NewFlows returns Flows in which as many tubes have a flow of their own as there is room for.
// Several Flows can share the room.
func NewFlows(room *atomic.Int64) *Flows { return &Flows{room: room, named: make(map[string]*Flow)} }

// RoomFor returns room for n tubes.
func RoomFor(n int) *atomic.Int64 {
	room := new(atomic.Int64)
	room.Store(int64(n))
	return room
}

// Open returns the flow of a tube: its own, if it has one or there is room for one; else Rest.
func (f *Flows) Open(tube string) *Flow {
	if flow := f.named[tube]; flow != nil {
		return flow
	}
	if f.room.Load() <= 0 || f.room.Add(-1) < 0 { // another goroutine can take the last room in between
		return &f.Rest
	}
	flow := new(Flow)
	f.named[tube] = flow
	return flow
}

// Drop adds the flow of a tube that was removed to Rest.
func (f *Flows) Drop(tube string) {
	if flow := f.named[tube]; flow != nil {
		f.Rest.Add(flow)
		delete(f.named, tube)
		f.room.Add(1)
	}
}

// Find returns the flow that a tube has of its own, nil if it has none.
func (f *Flows) Find(tube string) *Flow { return f.named[tube] }

// Each calls do for each tube that has a flow of its own, in no particular order, until do
// returns false.
func (f *Flows) Each(do func(tube string, flow *Flow) bool) {
	for name, flow := range f.named {
		if !do(name, flow) {
			return
		}
	}
}

// Named returns the flows of the tubes that have one of their own, in no particular order.
func (f *Flows) Named() []NamedFlow {
	all := make([]NamedFlow, 0, len(f.named))
	for name, flow := range f.named {
		all = append(all, NamedFlow{name, *flow})
	}
	return all
}

// countArrow updates the tube's flow before j moves along an arrow.
func (m *jobs) countArrow(now Instant, j *Job, arrow *Arrow) {
	f := m.tubeOf(j).flow
	if arrow.Counts != NoCounter {
		f.Counts[arrow.Counts]++
	}
	switch {
	case arrow.Counts == Reserves:
		if arrow.From == Ready && j.counters[Reserves] == 0 {
			f.Waits.Observe(time.Duration(now-j.created) - j.since.duration())
		}
		j.since = 0
	case arrow.To == Gone:
		f.Deletes++
		if arrow.From == Reserved {
			f.Runs.Observe(time.Duration(now - j.delivered()))
		}
	case arrow.Move == Touch || arrow.Move == SaveCheckpoint:
		j.since = spanOf(time.Duration(now - j.delivered()))
	case arrow.Move == Expire:
		m.totals.Timeouts++
	case arrow.Move == Snooze:
		f.Snoozes++
	case arrow.Move == Mature && j.counters[Reserves] == 0:
		j.dueSince(Instant(j.rank))
	case arrow.Move == KickJob && j.counters[Reserves] == 0:
		j.dueSince(now)
	}
}

// NameTubes sets how many tubes are counted by name: the first n that exist. It must be called
// before anything is counted.
func (m *jobs) NameTubes(n int) {
	m.flows = NewFlows(RoomFor(n))
	for _, t := range m.order {
		t.flow = m.flows.Open(t.name)
	}
}

// Flows returns the flows of the tubes that are counted by name, in no particular order, and
// the sum of all other tubes.
func (m *jobs) Flows() (named []NamedFlow, rest Flow) { return m.flows.Named(), m.flows.Rest }
