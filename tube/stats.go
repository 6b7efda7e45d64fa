package tube

import "time"

// JobStats is what stats-job prints about a job.
type JobStats struct {
	ID              uint64
	Tube            string
	State           State
	Pri, Delay, TTR uint32        // delay and TTR in seconds, as last set
	Created         Instant       // when it was put, by the wall clock of the store
	Age             time.Duration // since then
	TimeLeft        time.Duration // delayed and reserved jobs: until due; may be negative
	HeldFor         time.Duration // since the delivery of a reserved job; only of jobs that count as hung
	File            int           // number of the file that holds the record; 0 if none
	Counters        Counters
	Size            int // of the body, in bytes; only in lists of jobs

	// Metadata is nil if the job has none. Rules are the rules that apply to it. Leased says
	// that it is reserved by a lease, not by a connection.
	Metadata *Metadata
	Rules    Rules
	Leased   bool

	// Held is why a ready job cannot be reserved now because of limits, or HeldByBatch for a delayed job that waits for
	// a batch; NotHeld for all others.
	Held Held

	// Holder is the connection of this server that holds the job, LeaseHolder if it is leased; 0
	// if it is not reserved, or another server holds it: that is HeldAt, as the store calls it.
	// Lists of jobs do not say it.
	Holder Holder
	HeldAt string
}

// ExpiresIn returns how long it is until the job expires, which can be negative; if it waits for a batch, how long it will be from
// when it is due then. It is for a job with Metadata.Expires.
func (s *JobStats) ExpiresIn() time.Duration {
	if s.Metadata.After != "" {
		return s.Metadata.Expires.Until(s.Created) - time.Duration(s.Delay)*time.Second
	}
	return s.Metadata.Expires.Until(s.Created + Instant(s.Age))
}

// Home is Machine.Home for the job that s describes.
func (s *JobStats) Home() string {
	if s.Metadata == nil {
		return ""
	}
	return s.Metadata.home(s.Tube)
}

// JobStats returns what stats-job prints about job id; false if there is none.
func (m *groups) JobStats(now Instant, id uint64) (JobStats, bool) {
	j := m.Find(id)
	if j == nil {
		return JobStats{}, false
	}
	return m.jobStats(now, j), true
}

// jobStats returns what stats-job prints about j.
func (m *groups) jobStats(now Instant, j *Job) JobStats {
	s := JobStats{
		ID: j.ID, Tube: m.tubeOf(j).name, State: j.state,
		Pri: j.pri, Delay: j.delay, TTR: j.ttr,
		Created: m.Wall(j.created), Age: time.Duration(max(now-j.created, 0)), Counters: j.counters,
	}
	if m.isTagged(j) {
		s.Metadata, s.Rules = m.allMetadata(j), m.rulesOf(j)
		s.Leased = j.holder == LeaseHolder
	}
	if j.state == Ready {
		s.Held = m.heldReady(now, j)
	}
	if j.batch&isHeld != 0 {
		s.Held = HeldByBatch
	} else if j.state == Reserved || j.state == Delayed {
		s.TimeLeft = time.Duration(Instant(j.rank) - now)
	}
	return s
}

// TubeStats is what stats-tube prints about a tube.
type TubeStats struct {
	Name                                     string
	Urgent, Ready, Reserved, Delayed, Buried uint64
	Total                                    uint64 // jobs ever put here
	Using, Watching                          uint64 // connections
	Waiting                                  uint64 // connections that wait in a reserve; the Machine does not know it and leaves it 0
	Deletes, Pauses                          uint64 // successful deletes; pause-tube commands
	Pause                                    uint32 // length of the present pause in seconds, as asked for; 0: not paused
	PauseLeft                                time.Duration
	OldestReady                              time.Duration // since the put of the oldest ready job, see oldestReady; 0 if none is ready
	HasPolicy                                bool          // of its own, or by a prefix of its name
	Expired                                  uint64        // jobs whose time was over, deleted or parked
	Limits                                   *LimitStats   // nil: none, or they were not asked for
	Waits, Runs                              Times         // of the tube's Flow; of all servers on the same store, as far as they have reported
}

// TubeStats returns what stats-tube prints about a tube; false if there is none of
// that name.
func (m *groups) TubeStats(now Instant, name string) (TubeStats, bool) {
	t := m.tubes[name]
	if t == nil {
		return TubeStats{}, false
	}
	s := TubeStats{
		Name: name, Urgent: uint64(t.urgent), Ready: uint64(t.in(Ready)),
		Reserved: uint64(t.reserved), Delayed: uint64(t.in(Delayed)), Buried: uint64(t.buried.len()),
		Total: t.total, Deletes: t.deletes, Pauses: t.pauses, Pause: t.pauseSeconds, Expired: t.expired,
		Using: uint64(t.using), Watching: uint64(t.watching),
	}
	s.HasPolicy = m.policyOf(name) != nil
	if t.flow != &m.flows.Rest {
		s.Waits, s.Runs = t.flow.Waits, t.flow.Runs
	}
	if at := m.oldestReady(t); at != Never {
		s.OldestReady = time.Duration(max(now-at, 0))
	}
	if t.paused() {
		s.PauseLeft = max(t.pauseUntil.Until(now), 0)
	}
	return s, true
}

// Totals are the counts over all tubes, as stats prints them.
type Totals struct {
	Urgent, Ready, Reserved, Delayed, Buried uint64 // jobs now
	Jobs                                     uint64 // jobs ever put
	Timeouts                                 uint64 // reservations that ran out
	Tubes                                    uint64
}

// Totals returns the counts over all tubes.
func (m *groups) Totals() Totals {
	t := m.totals
	t.Tubes = uint64(len(m.order))
	return t
}

const (
	// MaxPriorities is how many priorities of a tube are examined for the oldest ready job.
	// If its ready jobs have more priorities, an older one can be missed.
	MaxPriorities = 16

	// mostNodes is how many jobs added out of order of priority are examined. If there are
	// more, an older one can be missed.
	mostNodes = 4096
)

// oldestReady returns when the oldest ready job of t was put, Never if none is ready. In the
// ring the first job of each priority is its oldest, because ids grow with time.
func (m *groups) oldestReady(t *Tube) Instant {
	oldest, after := Never, start
	if t.lanes != nil {
		oldest = m.oldestInGroups(t)
	}
	for range MaxPriorities {
		first := t.ready.ring.next(&m.slab, after, 1)
		if len(first) == 0 {
			break
		}
		oldest = min(oldest, first[0].created)
		after = position{rank: first[0].rank, id: 1<<64 - 1}
	}
	for _, self := range t.ready.tree[:min(len(t.ready.tree), mostNodes)] {
		oldest = min(oldest, m.slab.at(self).created)
	}
	return oldest
}

// mostLanes is how many groups are examined for the oldest ready job.
const mostLanes = 1 << 14

// oldestInGroups returns when the oldest ready job of those that come first in their groups was put;
// Never if there is none. If there are more than mostLanes groups, an older one can be missed.
func (m *groups) oldestInGroups(t *Tube) Instant {
	oldest, n := Never, 0
	for l := range t.lanes.byName.all() {
		if n++; n > mostLanes {
			break
		}
		if j := l.ready.head(&m.slab); j != nil {
			oldest = min(oldest, j.created)
		}
	}
	return oldest
}
