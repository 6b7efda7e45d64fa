package queue

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/storage/body"
	"redstalk/tube"
)

// Config configures a Queue. The zero value is useful.
type Config struct {
	// MaxJobSize is the largest body of a job, in bytes. 0 means DefaultMaxJobSize; with a
	// negative number, bodies must be empty.
	MaxJobSize int

	// NamedTubes limits the number of tubes whose events are counted by name; see
	// storage.Reporter. 0 means tube.DefaultNamed, a negative number none.
	NamedTubes int
	// MayPush reports whether jobs may be pushed to a URL; nil allows no URL. It may be called
	// by any goroutine, and must not block.
	MayPush func(url string) bool

	// Version is the version of the program for the stats page; may be empty.
	Version string

	// Log receives messages for operators; nil means slog.Default.
	Log *slog.Logger

	// Through, if not nil, returns a store that passes all on to the store of the queue. Operations
	// are submitted to it.
	Through func(storage.Store) storage.Store

	// Wanted, if not nil, is called with tubes for which somebody wants a job when the store has
	// none. It must return quickly, must not call the queue, and must not keep the slice.
	Wanted func(tubes []string)
}

// DefaultMaxJobSize is beanstalkd's default for the largest body, in bytes.
const DefaultMaxJobSize = 65535

// Queue is a store together with all of its users in this process. All methods are safe for
// concurrent use.
type Queue struct {
	// Counters are incremented by the listeners.
	Counters Counters

	config   Config
	store    storage.Store
	through  storage.Store    // to which operations are submitted: the store, or what Config.Through has returned
	reporter storage.Reporter // the store, if it counts what it does
	bodies   *body.Pool
	lists    waitlists
	clients  clients
	takers   takers
	timer    *timer
	id       string // 16 hexadecimal digits, random
	began    time.Time

	watcher  atomic.Pointer[Watcher] // nil: none
	holders  atomic.Uint64           // numbers handed out
	draining atomic.Bool

	endWaits     endWaits
	recordsDue   [tube.NumRecordKinds]chan struct{} // each has room for one
	clockSetBack chan time.Duration
	closing      chan struct{} // closed by Close
}

// New returns a queue on the store and becomes the store's listener. The store must be
// fresh: nothing may have been asked of it. The caller still owns the store, and closes it
// after Close.
func New(store storage.Store, config Config) *Queue {
	if config.MaxJobSize == 0 {
		config.MaxJobSize = DefaultMaxJobSize
	}
	config.MaxJobSize = max(config.MaxJobSize, 0)
	if config.Log == nil {
		config.Log = slog.Default()
	}
	q := &Queue{
		config: config, store: store, through: store, id: newID(), began: time.Now(), closing: make(chan struct{}),
		bodies: body.NewPool(), clockSetBack: make(chan time.Duration, 4),
	}
	for kind := range q.recordsDue {
		q.recordsDue[kind] = make(chan struct{}, 1)
	}
	if config.Through != nil {
		q.through = config.Through(store)
	}
	q.reporter, _ = store.(storage.Reporter)
	if q.reporter != nil && config.NamedTubes != 0 {
		q.reporter.NameTubes(max(config.NamedTubes, 0))
	}
	q.lists.init()
	q.timer = newTimer(store, &q.lists, q.bodies, config.Log, q.closing)
	store.Listen(listener{q})
	// The tube "default" needs no reference: it always exists.
	go q.dispatcher()
	go q.timer.run()
	return q
}

// newID begins with a letter from a to d, because clients that parse YAML take 1234567890123456 and
// 12e3456789012345 for numbers.
func newID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	b[0] = 0xa0 + b[0]%0x40
	return hex.EncodeToString(b[:])
}

// listener is the queue as the store sees it.
type listener struct{ q *Queue }

func (l listener) WakeUp(tube string) bool {
	waits := l.q.lists.jobReady(tube)
	return l.q.watcherReady(tube) || waits
}

func (l listener) Waiting(tube string) int { return l.q.lists.waiting(tube) }
func (l listener) Due(in time.Duration)    { l.q.timer.due(in) }

func (l listener) RecordsDue(kind tube.RecordKind) {
	select {
	case l.q.recordsDue[kind] <- struct{}{}:
	default: // whoever receives has not yet done it
	}
}

func (l listener) ClockSetBack(by time.Duration) {
	select {
	case l.q.clockSetBack <- by:
	default: // others are waiting already
	}
}

// ClockSetBack receives by how much the clock of the store was set back, see storage.Listener.
func (q *Queue) ClockSetBack() <-chan time.Duration { return q.clockSetBack }

// Store returns the store for a listener that submits batches itself.
func (q *Queue) Store() storage.Store { return q.through }

// Bodies returns the pool for bodies of jobs that listeners put with Do.
func (q *Queue) Bodies() *body.Pool { return q.bodies }

// MaxJobSize is the largest body of a job, in bytes.
func (q *Queue) MaxJobSize() int { return q.config.MaxJobSize }

// NewHolder returns a number under which jobs can be reserved. No other caller of this queue
// gets the same one.
func (q *Queue) NewHolder() tube.Holder { return tube.Holder(q.holders.Add(1)) }

// Drain makes the queue refuse all puts, until Undrain.
func (q *Queue) Drain() { q.draining.Store(true) }

// Undrain ends a Drain.
func (q *Queue) Undrain() { q.draining.Store(false) }

// Shared reports whether other servers use the same store.
func (q *Queue) Shared() bool { return q.store.Shared() }

// Draining reports whether puts are refused.
func (q *Queue) Draining() bool { return q.draining.Load() }

// closeGrace is how long Close waits for the store after its context has ended.
const closeGrace = time.Second

// Close ends the timer and all waiting: a waiting Reserve returns ErrClosed. Listeners must
// have ended before. If ctx ends first, because the store hangs, Close returns its error
// after another second. It must be called only once.
func (q *Queue) Close(ctx context.Context) error {
	close(q.closing)
	ended := make(chan struct{})
	go func() {
		<-q.lists.dispatcherEnded
		<-q.timer.ended
		q.lists.stopLimitTimeout()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return nil
	case <-time.After(closeGrace): // the store does not answer
		return ctx.Err()
	}
}
