package redis

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/schema"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// worthWaking is from how many operations on it is better to wake the worker than to wait for
// Redis in the same goroutine, which can collect more meanwhile.
const worthWaking = 64

// partition is one part of the tubes and their jobs, on one Redis node. It joins what all
// connections want into calls of the script, one call at a time: the next call fills while one
// is under way.
//
// A goroutine that submits a unit while there is no caller becomes the caller, which avoids
// waking another one. It continues if it can poll for more (pipeline.go). Otherwise the rest is
// left to the worker, a goroutine of the partition, which continues until there is nothing
// more. If there are several partitions, the worker makes all calls, so that a goroutine with
// work for one of them does not wait for another.
//
// What belongs to the caller must not be used by other goroutines, and needs no lock.
type partition struct {
	prefix   string // of all keys
	number   int
	of       int    // partitions in all
	shape    string // the script's arguments about partitions; "" if there is one
	pool     *conn.Pool
	all      func(int) *partition // returns a partition of the store by its number
	options  Options
	log      *slog.Logger
	timerLag *timerLag        // common to all partitions
	listener storage.Listener // see listen
	ended    chan struct{}    // closed when the worker has ended

	inbox       inbox            // has its own lock, and decides who is the caller
	background  background       // has its own lock
	flow        tubeFlows        // has its own lock
	stats       *storeStats      // common to all partitions
	ticks       *atomic.Int32    // how many are under way, common to all partitions
	senders     *atomic.Int32    // how many partitions send dead letters, common to all
	answered    atomic.Int64     // when Redis has last answered a call, ns since the epoch; 0: never
	deadLetters deadLetterSender // safe for concurrent use
	questions   *questions       // safe for concurrent use
	stepSizes   stepSizes        // safe for concurrent use
	failing     atomic.Bool      // calls fail, see recover
	calling     calling          // safe for concurrent use
	instance    instance         // name is safe for concurrent use, the rest belongs to the caller
	clock       clock            // now is safe for concurrent use, the rest belongs to the caller
	holdings    *holdings        // belongs to the caller, but for soon and holdsAny
	server      serverCheck      // see its type

	ends awaitedEnds // safe for concurrent use

	// The rest belongs to the caller.
	keeping   bool      // policies say something about records of ended jobs, as of the last reply
	revivedAt time.Time // when this instance went on under another name since others had declared it dead; zero: never
	link      conn.Link
	pipeline  pipeline
	ids       ids
	heartbeat heartbeat
	bodies    *bodyCache
	leftOver  []string // staged keys to be deleted, see large.go
	refs      *tubeRefs

	groupNames *groupNames
	mostNames  int // groupNames.most
}

func newPartition(pool *conn.Pool, o Options, all *idOrder, lag *timerLag, number int) *partition {
	p := &partition{
		prefix: schema.KeyPrefix(o.Namespace, number), number: number, of: o.Partitions,
		pool: pool, link: newLink(pool, o), options: o, log: o.Log, timerLag: lag, listener: nopListener{}, ended: make(chan struct{}),
		clock: clock{skew: o.skew}, ids: ids{order: all, of: o.Partitions},
		holdings: newHoldings(o.Partitions > 1), bodies: newBodyCache(o), refs: newTubeRefs(), groupNames: &groupNames{}, mostNames: mostNames,
		questions: newQuestions(), flow: newTubeFlows(), stats: newStoreStats(), ticks: &atomic.Int32{}, senders: &atomic.Int32{},
	}
	if p.of > 1 {
		p.shape = fmt.Sprintf("partitions=%d number=%d ", p.of, p.number)
		p.log = o.Log.With("partition", number)
	}
	p.server.capabilities.Store(&capabilities{record: defaultBulk})
	p.server.complaints = &telemetry.Throttle{}
	p.inbox.changed.L = &p.inbox.mu
	p.heartbeat.doubt(p.clock.now()) // Redis may have been down until now
	p.instance.rename()
	return p
}

// newLink returns the link of a partition. A single one has its own connection; the calls of
// several overlap anyway.
func newLink(pool *conn.Pool, o Options) conn.Link {
	if o.Partitions > 1 {
		return pool.NewSharedLink()
	}
	return pool.NewLink()
}

// listen sets the listener. It is notified of everything that is submitted later.
func (p *partition) listen(l storage.Listener) {
	p.inbox.mu.Lock()
	p.listener = l
	p.inbox.mu.Unlock()
}

// submit queues units, and carries them out unless another goroutine already does; false if the
// partition has ended.
func (p *partition) submit(units ...*unit) bool { return p.submitPolling(nil, units...) }

// submitPolling is submit for a goroutine that can poll for more work, by calling poll. It
// makes the calls as long as there is work.
func (p *partition) submitPolling(poll func(read bool) int, units ...*unit) bool {
	now := time.Now()
	for _, u := range units {
		if u.since.IsZero() {
			u.since = now
		}
	}
	mayCall := p.of == 1 && (poll != nil || opsOf(units) < worthWaking)
	caller, ok := p.inbox.add(units, mayCall)
	if caller {
		p.beCaller(poll)
	}
	return ok
}

// do queues background work and waits for it.
func (p *partition) do(encode func(*call)) error {
	done := make(chan error, 1)
	if !p.submit(&unit{background: encode, after: func(err error) { done <- err }}) {
		return storage.ErrClosed
	}
	return <-done
}

// end lets the worker finish what is queued, and waits for it.
func (p *partition) end() {
	p.ends.end()
	p.inbox.end()
	<-p.ended
}

// nopListener is the listener until Listen is called.
type nopListener struct{}

func (nopListener) WakeUp(string) bool { return true }

func (nopListener) Waiting(string) int         { return 0 }
func (nopListener) RecordsDue(tube.RecordKind) {}

func (nopListener) Due(time.Duration) {}

func (nopListener) JobEnded(uint64)            {}
func (nopListener) ClockSetBack(time.Duration) {}

// submitOrFail submits units. If the partition has ended they end with ErrClosed.
func (p *partition) submitOrFail(poll func(read bool) int, units ...*unit) {
	if !p.submitPolling(poll, units...) {
		for _, u := range units {
			u.end(storage.ErrClosed)
		}
	}
}
