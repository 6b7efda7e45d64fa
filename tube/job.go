package tube

import "time"

// Instant is a point in time, in nanoseconds since the Unix epoch. The rules only
// compare instants and add to them. The engine decides which clock they come from; see
// Machine.SetWallClock for what must follow the wall clock.
type Instant int64

// Never is later than every instant that can be reached.
const Never Instant = 1<<63 - 1

// Latest is the latest time at which a job can be due, a whole millisecond in April 2262.
const Latest = (Never/Instant(time.Millisecond) - 1) * Instant(time.Millisecond)

// After returns the instant that many whole seconds later. It cannot overflow:
// seconds in the protocol are unsigned 32-bit numbers.
func (t Instant) After(seconds uint32) Instant {
	return t + Instant(seconds)*Instant(time.Second)
}

// Plus returns the instant d later, at most Latest.
func (t Instant) Plus(d time.Duration) Instant { return t + Instant(min(d, Latest.Until(t))) }

// Until returns the time from now to t. It is negative if t has passed.
func (t Instant) Until(now Instant) time.Duration {
	if t == Never {
		return time.Duration(Never)
	}
	return time.Duration(t - now)
}

const (
	// Margin is how long before a TTR deadline DEADLINE_SOON is answered: a connection
	// that holds a job so close to its deadline does not wait for another job.
	Margin = time.Second

	// UrgentBelow is the priority below which a ready job counts as urgent, in both
	// engines.
	UrgentBelow = 1024

	// MinTTR is the smallest TTR in seconds. A smaller one is set to it.
	MinTTR = 1

	// Default is the name of the tube that always exists.
	Default = "default"
)

// Holder identifies the owner of a reservation: one connection of one server. Zero means
// no holder.
type Holder uint64

// LeaseHolder is the holder of all leases: jobs that no connection holds.
const LeaseHolder Holder = 1<<64 - 1

// State is the state of a job. The zero State means that there is no such job.
type State uint8

// The states of a job, by the words that stats-job prints.
const (
	Gone State = iota
	Ready
	Reserved
	Delayed
	Buried
	numStates
)

// String returns the word that stats-job prints for the state.
func (s State) String() string {
	return [numStates]string{"invalid", "ready", "reserved", "delayed", "buried"}[s]
}

// Counter names one of a job's five counters.
type Counter uint8

// The counters of a job, in the order in which stats-job prints them.
const (
	Reserves Counter = iota
	Timeouts
	Releases
	Buries
	Kicks
	NumCounters
	NoCounter = NumCounters
)

// String returns the counter's name in stats-job.
func (c Counter) String() string {
	return [NumCounters]string{"reserves", "timeouts", "releases", "buries", "kicks"}[c]
}

// Counters are the five counters of a job, indexed by Counter. They wrap at 32
// bits, as in beanstalkd.
type Counters [NumCounters]uint32

// Job is a job inside a Machine. It belongs to the Machine: a *Job is valid until
// the next call of a method that changes the Machine. It contains no pointer, see
// slab.
type Job struct {
	ID uint64

	// rank orders the job in its present queue: the priority when ready, the
	// due time when delayed, the TTR deadline when reserved, the number of
	// the burial when buried. In a free slot of the slab it is the number of the
	// next free slot.
	rank int64

	created Instant
	holder  Holder // 0 unless Reserved

	pri, delay, ttr uint32
	counters        Counters
	size            uint32 // of the body, in bytes
	tube            uint32 // index in Machine.handles
	pos             uint32 // its number in the ring, or its index in the tree, of its present queue
	self            ref
	state           State
	place           uint8 // where and how it is in its present queue, see inRing
	hasMetadata     bool  // it is in Machine.metadata
	batch           uint8 // what it has to do with batches, see isMember

	// since has two meanings. While the job was never delivered: how long after created it
	// became due. While it is reserved: how long after its delivery the TTR last began.
	since span
}

// State returns the state of j.
func (j *Job) State() State { return j.state }

// Size returns the length of the body in bytes.
func (j *Job) Size() int { return int(j.size) }

// JobStats is what stats-job prints about a job.
type JobStats struct {
	ID              uint64
	Tube            string
	State           State
	Pri, Delay, TTR uint32        // delay and TTR in seconds, as last set
	Created         Instant       // when it was put, by the wall clock of the store
	Age             time.Duration // since then
	TimeLeft        time.Duration // delayed and reserved jobs: until due; may be negative
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
