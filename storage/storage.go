// Package storage says what the server needs of an engine: operations as values, their
// answers, and what a store tells its server. It holds no engine and no rule: the rules
// behind the operations are in package tube.
//
// # The contract of a store
//
// An operation is a value (Op). A connection hands over all operations that it has read so
// far as one Batch. A store may join the batches of all connections and carry them out
// together.
//
// Within a batch the operations take effect in their order, and no other batch comes
// between them, with these exceptions:
//
//   - Before a Leave, and before a Put that has to wait for room.
//   - In the middle of a long Kick, Leave or Attend, and before any other operation that
//     needs much work.
//   - In a store that is divided into parts: where the operations of a batch go on to
//     another part.
//
// When the Done of a batch is called, every change for which it has an answer without an
// error is as safe as the store promises. The engine's own documentation says how safe that
// is.
//
// Nothing waits for jobs in a store. A Take answers that there is no job; waiting for one is
// the server's business. Listener.Ready gives a hint when it is worth to try again. Hints
// may come merged, and in vain. None is lost between a Take with Wait set that found nothing
// and the next one of the same server, unless the store fails. A server tries again now and
// then all the same.
//
// Time is the store's. Tick does what is due, and says when it should be called again.
//
// # Who owns what
//
//   - The slice that Do gets stays the caller's. The batches in it, with all that they point
//     to, are the store's from Do until their Done.
//   - The strings in an Op may be kept by the store after that.
//   - Op.Body may be kept as well. It must not change, as long as the store has not released
//     Op.Buffer; if that is nil, never. The store may also leave Op.Buffer unreleased.
//   - Op.Tubes is only read until Done.
//   - Answers are the caller's from Done on. Answer.Body may still be the store's own
//     memory: it must never be changed. It stays as it is until the caller releases
//     Answer.Buffer; if that is nil, or never released, for ever.
//
// # Adding an operation
//
// Add a Kind. Say in its comment which fields of Op it reads and which of Answer it sets.
// Add a test to the suite in storetest, which every engine passes, and carry it out in every
// engine. A command that only moves a job needs no Kind: see package tube.
package storage

import (
	"errors"
	"time"
)

// Store keeps jobs. All methods may be called from any goroutine. The caller must not hold a
// lock that a Done or the Listener takes: both may be called before Do and Tick return.
type Store interface {
	// Do carries out batches, in their order. It calls the Done of each exactly
	// once, when every Answer of the batch is set: before or after Do returns.
	// Batches that are handed over with one call can become one commit.
	Do(batches ...*Batch)

	// Tick does what is due by time. It returns how long until the next thing is
	// due, as far as is known now; Forever if nothing is. If that is more than
	// zero, all that was due when Tick was called is done, except for what another
	// server on the same store has to do.
	Tick() (time.Duration, error)

	// Listen sets the one listener. It must be called before the first Do.
	Listen(Listener)

	// Close ends the store when all batches that were handed over are done. Jobs
	// that are still reserved, but not by a lease, are ready for the next one who
	// opens the store. They come back in the order of their ids, very many in
	// parts: so those that are parked by that are buried in this order, whoever
	// held them. Batches that come later are answered with ErrClosed.
	Close() error
}

// Gatherer is a Store that does something slow for many batches at once, such as a sync of
// the disk or a call to another process.
type PollingStore interface {
	Store

	// DoGathering is Do, but it calls more before it begins what is slow, or while
	// that goes on elsewhere. more gives out what Dones have left to be given out,
	// replies above all. Then, with look, it carries out with Do what has come
	// meanwhile, and returns how many batches these were; without, 0. It is called
	// any number of times, on the caller's goroutine, before DoGathering returns, and
	// after the last Done that comes on that goroutine before something slow.
	DoPolling(more func(look bool) int, batches ...*Batch)
}

// Settler is a Store that several servers share.
type SharedStore interface {
	Store

	// Settle is a Tick that also waits for what other servers have to do, but not
	// for long. If it returns more than zero, all that was due when it was called
	// is done.
	TickAll() (time.Duration, error)
}

// Forever is a duration that never ends.
const Forever = time.Duration(1<<63 - 1)

// Listener is what a store tells its server. The methods may be called from any goroutine,
// also while the server is in a call of the store. They must return quickly and must not
// call the store.
type Listener interface {
	// Ready hints that a job may be taken from the tube; for several jobs a store may hint as
	// often. It returns whether a
	// connection waits for that here. If not, a store that several servers share
	// gives the hint to the next one.
	Ready(tube string) bool

	// Waiting returns how many connections here wait for a job of the tube. A
	// store that several servers share tells the others now and then.
	Waiting(tube string) int

	// Due asks for a Tick after that time or earlier.
	Due(in time.Duration)
}

// ErrNoSpace answers an operation for which the store has no room: its memory or its disk
// is full. The wire's word is OUT_OF_MEMORY.
var ErrNoSpace = errors.New("no space left in the store")

// ErrTooBig answers the put of a job that is larger than the store takes it, or the server. The
// wire's word is JOB_TOO_BIG.
var ErrTooBig = errors.New("the job is too big")

// ErrUnavailable answers an operation if the store could not be reached, or could not say
// what became of the operation. The wire's word is INTERNAL_ERROR.
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
