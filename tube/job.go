package tube

import "time"

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
	tube            uint32 // number in Machine.handles
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

// span is a duration in 32 bits: milliseconds up to 24 days, whole seconds beyond that.
type span uint32

// inSeconds is the bit that says that the other bits of a span are seconds.
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

// dueSince records since when j, which was never delivered, has been due.
func (j *Job) dueSince(at Instant) { j.since = spanOf(time.Duration(at - j.created)) }

// delivered returns when j, which is reserved, was delivered. Its since is from then until
// its TTR last began.
func (j *Job) delivered() Instant {
	return Instant(j.rank) - Instant(j.ttr)*Instant(time.Second) - Instant(j.since.duration())
}
