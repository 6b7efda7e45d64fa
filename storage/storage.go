package storage

import (
	"errors"
	"time"

	"redstalk/tube"
)

// Store keeps jobs. All methods may be called from any goroutine. The caller must not hold a
// lock that a Done or the Listener takes: both may be called before Do and Tick return.
type Store interface {
	// Do carries out batches, in order. It calls the Done of each exactly once, when
	// every Answer of the batch is set: before or after Do returns. Batches passed in
	// one call can become one commit.
	Do(batches ...*Batch)

	// Tick does what is due. It returns how long until the next thing is due, as far
	// as is known now; Forever if nothing is. If that is more than zero, all that was
	// due when Tick was called is done, except for what another server on the same
	// store has to do.
	Tick() (time.Duration, error)

	// TickAll is a Tick that also waits a short time for what other servers on the same store
	// have to do. If it returns more than zero, all that was due when it was called is done.
	TickAll() (time.Duration, error)

	// Shared reports whether several servers can share the store. If not, TickAll is Tick.
	Shared() bool

	// Listen sets the one listener. It must be called before the first Do.
	Listen(Listener)

	// Close closes the store when all submitted batches are done. Jobs that are still
	// reserved, but not by a lease, are ready when the store is opened again. They
	// become ready in the order of their ids, in parts if they are many; those that
	// are parked by that are buried in this order, whoever held them. Later batches
	// are answered with ErrClosed.
	Close() error
}

// PollingStore is a Store that does something slow for many batches at once, such as a sync of
// the disk or a call to another process, and lets its caller work meanwhile.
type PollingStore interface {
	Store

	// DoPolling is Do, but it calls more before it begins a slow step, or while that runs
	// elsewhere. more sends what Dones have left to be sent, above all replies. With read
	// true it also reads new commands, submits them with Do, and returns the number of
	// these batches; otherwise it returns 0. DoPolling calls it any number of times, on the
	// caller's goroutine, before it returns, and after the last Done that comes on that
	// goroutine before a slow step.
	DoPolling(more func(read bool) int, batches ...*Batch)
}

// Forever is a duration that never ends.
const Forever = time.Duration(1<<63 - 1)

// Listener receives what a store reports to its server. The methods may be called from any
// goroutine, also while the server is in a call of the store. They must return quickly and must
// not call the store.
type Listener interface {
	// WakeUp reports that a job of the tube may be available. A store can send one wake-up
	// for several jobs, or one for each. WakeUp returns whether a connection of this server
	// waits for the tube. If not, a store that several servers share passes the wake-up on
	// to the next server.
	WakeUp(tube string) bool

	// Waiting returns how many connections of this server wait for a job of the tube. A
	// store that several servers share reports it to the others from time to time.
	Waiting(tube string) int

	// Due asks for a Tick after that time or earlier.
	Due(in time.Duration)

	// RecordsDue reports that DueRecords has something of a kind to return. A Tick reports that again until
	// it is returned.
	RecordsDue(kind tube.RecordKind)

	// JobEnded reports that a WaitEnded with Wait for the job should be repeated: the job has ended or is buried, or the store
	// does not know any more that somebody waits. It can be called without a reason.
	JobEnded(id uint64)

	// ClockSetBack reports that the clock of the store was set back by a second or more, by about so much.
	// If a store has several parts, each reports it.
	ClockSetBack(by time.Duration)
}

// ErrNoSpace answers an operation for which the store has no room: its memory or its disk
// is full. In the protocol it is OUT_OF_MEMORY.
var ErrNoSpace = errors.New("no space left in the store")

// ErrQuota answers a put that a quota of its tube does not allow. It is an ErrNoSpace as well.
var ErrQuota error = quotaError{}

type quotaError struct{}

func (quotaError) Error() string { return "the tube has reached its quota" }
func (quotaError) Unwrap() error { return ErrNoSpace }

// ErrTooBig answers the put of a job that is larger than the store or the server accepts. In
// the protocol it is JOB_TOO_BIG.
var ErrTooBig = errors.New("the job is too big")

// ErrUnavailable answers an operation if the store could not be reached, or could not say
// whether the operation was carried out. In the protocol it is INTERNAL_ERROR.
var ErrUnavailable = errors.New("the store is not available")

// ErrClosed answers an operation that came after Close.
var ErrClosed = errors.New("the store is closed")

// DoWait carries out operations as one batch, and returns when they are answered.
func DoWait(s Store, ops []Op) { DoBatch(s, &Batch{Ops: ops, Done: func() {}}) }

// DoBatch carries out a batch, and returns when its Done has returned.
func DoBatch(s Store, b *Batch) {
	done := make(chan struct{})
	s.Do(&Batch{Ops: b.Ops, Ordered: b.Ordered, Done: func() {
		defer close(done)
		b.Done()
	}})
	<-done
}
