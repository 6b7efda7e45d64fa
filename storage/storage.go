// Package storage says what the server needs of whatever keeps the jobs, and
// nothing else: operations as values, their answers, and two ways in which a
// store speaks up by itself. The rules behind the operations are in package
// tube.
//
// # The contract of a store
//
// An operation is a value (Op). A connection hands over everything that it
// has read so far as one Batch; a store may join the batches of all
// connections and carry them out together. Within a batch the operations take
// effect in their order, and no other batch comes between them, except before
// a Leave, where a batch is so much work, or waits for so much room, that others
// must not wait for it (in the middle of a long Kick, Leave or Attend, before any
// other operation that needs much work, and before a Put), and, in a store that is
// divided, where they go on to another part of it. An acknowledged change (an answer without
// an error) is as safe as the store promises before Done is called.
//
// Nothing waits in a store. Take says that there is no job; waiting for one
// is the server's business, and the Listener's Ready tells it when looking
// again is worthwhile. Such hints may come merged or in vain. They are not
// lost between a Take with Wait set that found nothing and the next one of
// the same server, short of a failing store; a server looks again now and
// then all the same.
//
// Time is the store's: Tick does what is due, and says how long until it
// should be called again.
//
// # Adding an operation
//
// Add a Kind, say in its comment which fields of Op it reads and which of
// Answer it sets, and put it into the suite in storetest, which every engine
// passes. A command that only moves a job needs no new Kind: see package tube.
package storage

import (
	"errors"
	"time"

	"redstalk/tube"
)

// Store keeps jobs. All methods may be called from any goroutine.
type Store interface {
	// Do carries out batches, in their order. It may return before or after
	// that is done; it calls the Done of each when it is, exactly once, with
	// every Answer set. Batches that are handed over together can become one
	// commit. The slice stays the caller's, the batches are the store's until
	// their Done.
	Do(batches ...*Batch)

	// Tick does what is due by time and returns how long until the next
	// thing is due, as far as is known now; Forever if nothing is. If that is
	// more than zero, all that was due when Tick was called is done, but for what
	// another server on the same store has to do.
	Tick() (time.Duration, error)

	// Listen names the one listener, before the first Do.
	Listen(Listener)

	// Close ends the store after what is under way is done. Reservations
	// that were not given back are ready again for whoever opens it next.
	Close() error
}

// Gatherer is a Store that does something slow for many batches at once, as a
// sync of the disk, or a call to another process.
type Gatherer interface {
	Store

	// DoGathering does what Do does, but asks for more before it begins what
	// is slow, or while that goes on elsewhere: more carries out, by Do, what
	// has come meanwhile, and returns how many batches these were. It is called
	// any number of times, on the caller's goroutine, before DoGathering
	// returns.
	DoGathering(more func() int, batches ...*Batch)
}

// Settler is a Store that several servers share.
type Settler interface {
	Store

	// Settle is a Tick that sees to what other servers have made due, too: if
	// it returns more than zero, all that was due when it was called is done. It
	// waits for other servers to do their part, but not for long.
	Settle() (time.Duration, error)
}

// Forever is a duration that never ends.
const Forever = time.Duration(1<<63 - 1)

// Listener is what a store tells its server. It must return quickly, must not
// call the store from within, and may be called from any goroutine.
type Listener interface {
	// Ready hints that a job may be taken from the tube. It returns whether
	// anybody waits for that here; if not, a store shared by several servers
	// asks the next one.
	Ready(tube string) bool

	// Waiting returns how many connections here wait for a job of the tube.
	// Other servers on the same store are told now and then.
	Waiting(tube string) int

	// Due asks for a Tick after that time or earlier.
	Due(in time.Duration)
}

// Batch is the operations of one connection that it has handed over together.
// It belongs to the store from Do until Done.
type Batch struct {
	Ops []Op

	// Done is called when all operations are answered, perhaps before Do
	// returns and perhaps on a goroutine of the store. It must not block.
	Done func()

	// InTurn is a batch whose Done must not come before those of the batches that
	// the same goroutine has handed over before, but for those that others come
	// between, or that wait for bodies.
	InTurn bool
}

// Kind says what an operation does.
type Kind uint8

// The kinds, each with the fields of Op it reads → the fields of Answer it
// sets. NotFound and Err may be the answer to any of them.
const (
	// Put: Tube, Pri, Delay, TTR, Body → ID.
	Put Kind = iota
	// Take: Holder, Tubes, Wait → ID, Body; or NotFound and Soon.
	Take
	// Move: Move, Holder, ID; Pri and Delay for release and bury → ID, Body
	// for tube.ReserveJob.
	Move
	// Kick: Tube, Bound → Count.
	Kick
	// Peek: ID → ID, Body.
	Peek
	// PeekHead: Tube, State → ID, Body.
	PeekHead
	// JobStats: ID → Job.
	JobStats
	// TubeStats: Tube → TubeStats, where Waiting counts other servers only.
	TubeStats
	// Stats: nothing → Stats.
	Stats
	// Tubes: nothing → Names.
	Tubes
	// Pause: Tube, Delay.
	Pause
	// Attend: Tubes, Role, Delta; never NotFound.
	Attend
	// Leave: Holder; gives back all it holds, of very much a part at a time;
	// never NotFound.
	Leave
)

// Op is one operation and, once done, its answer. Strings and slices in it
// must not be changed until then.
type Op struct {
	Kind   Kind
	Move   tube.Move
	Role   tube.Role
	State  tube.State
	Wait   bool // Take: whoever asks will wait for a hint if there is none
	Pri    uint32
	Delay  uint32 // seconds; Pause: how long
	TTR    uint32 // seconds
	Bound  uint32
	Delta  int
	ID     uint64
	Holder tube.Holder
	Tube   string
	Tubes  []string
	Body   []byte // kept by the store, not copied

	Answer Answer
}

// Answer is what came of an operation. Body must not be changed.
type Answer struct {
	// NotFound: there is no such job or tube, or the move does not apply to
	// it; for Take, no job is ready.
	NotFound bool

	// Err, if not nil: the store could not do it, and nothing else is set.
	Err error

	ID    uint64
	Body  []byte
	Count int

	// Soon is how long until the holder, still waiting, must be told
	// DEADLINE_SOON; zero or less: now. Set by a Take that found nothing.
	Soon time.Duration

	Job       *tube.JobStats
	TubeStats *tube.TubeStats
	Stats     *Figures
	Names     []string
}

// Figures are what a store contributes to the stats page.
type Figures struct {
	tube.Totals
	Log Log

	// Instances is how many servers share the store at present, as far as is
	// known; 0 for a store that only one can have.
	Instances uint64
}

// Log describes a store's files, in the words of beanstalkd's binlog.
type Log struct {
	OldestIndex, CurrentIndex       uint64
	RecordsMigrated, RecordsWritten uint64
	MaxSize                         uint64 // bytes of one file
}

// ErrNoSpace answers an operation for which the store has no room: memory or
// disk is full. The wire's word is OUT_OF_MEMORY.
var ErrNoSpace = errors.New("no space left in the store")

// ErrUnavailable answers an operation when the store could not be reached, or
// could not say what became of it. The wire's word is INTERNAL_ERROR.
var ErrUnavailable = errors.New("the store is not available")

// ErrClosed answers an operation that came after Close.
var ErrClosed = errors.New("the store is closed")

// DoWait carries out a batch of these operations and returns when it is done.
func DoWait(s Store, ops []Op) { DoBatch(s, &Batch{Ops: ops, Done: func() {}}) }

// DoBatch carries out a batch and returns when its Done has.
func DoBatch(s Store, b *Batch) {
	done := make(chan struct{})
	s.Do(&Batch{Ops: b.Ops, InTurn: b.InTurn, Done: func() {
		defer close(done)
		b.Done()
	}})
	<-done
}
