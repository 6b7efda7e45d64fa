package redis

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/storage/telemetry"
)

// worthWaking is from how many operations on it is better to wake the worker than to
// wait for Redis oneself: more can be collected meanwhile.
const worthWaking = 64

// partition is one part of the tubes and their jobs, which lives on one Redis
// node. It joins what all connections want into calls of the script, one call
// at a time: the next fills while one is under way.
//
// Whoever hands over a unit while nobody makes calls becomes the caller, which saves
// waking another goroutine, and goes on if it can ask for more (pipeline.go). Otherwise
// what has come meanwhile is left to the worker, a goroutine of the partition, which
// goes on until there is nothing more. If there are several partitions, the worker makes
// all calls: nobody who has something for one of them waits for another.
//
// What belongs to the caller nobody else may touch, and needs no lock.
type partition struct {
	prefix   string // of all keys
	number   int
	of       int    // partitions in all
	shape    string // of them, as the script is told; "" if there is one
	link     *link
	all      func(int) *partition // all of the store, by their numbers
	options  Options
	log      *slog.Logger
	timerLag *timerLag        // common to all partitions
	listener storage.Listener // see listen
	ended    chan struct{}    // closed when the worker has ended

	inbox       inbox            // has a lock of its own, and says who is the caller
	upkeep      upkeep           // has a lock of its own
	flow        tubeFlows        // has a lock of its own
	stats       *storeStats      // common to all partitions
	ticks       *atomic.Int32    // how many are under way, common to all partitions
	senders     *atomic.Int32    // how many partitions send dead letters, common to all
	answered    atomic.Int64     // when Redis has last answered a call, ns since the epoch; 0: never
	deadLetters deadLetterSender // for all
	batchSizes  batchSizes       // for all
	failing     atomic.Bool      // calls fail, see recover
	calling     calling          // for all
	instance    instance         // its name is for all, the rest for the caller
	clock       clock            // the local one is for all, the rest for the caller
	holdings    *holdings        // for the caller; soon and any are for all
	server      serverCheck      // of the server; says itself for whom it is

	// The rest belongs to the caller.
	transport transport
	pipeline  pipeline
	ids       ids
	heartbeat heartbeat
	bodies    *bodyCache
	leftOver  []string // staged keys to be deleted, see staged.go
	refs      *tubeRefs
}

func newPartition(l *link, o Options, all *idOrder, lag *timerLag, number int) *partition {
	p := &partition{
		prefix: keyPrefix(o.Namespace, number), number: number, of: o.Partitions,
		link: l, transport: newTransport(l, o.Partitions), options: o, log: o.Log, timerLag: lag, listener: nopListener{}, ended: make(chan struct{}),
		clock: clock{skew: o.skew}, ids: ids{order: all, of: o.Partitions},
		holdings: newHoldings(o.Partitions > 1), bodies: newBodyCache(o), refs: newTubeRefs(),
		flow: newTubeFlows(), stats: newStoreStats(), ticks: &atomic.Int32{}, senders: &atomic.Int32{},
	}
	if p.of > 1 {
		p.shape = fmt.Sprintf("partitions=%d number=%d ", p.of, p.number)
		p.log = o.Log.With("partition", number)
	}
	p.server.capabilities.Store(&capabilities{record: defaultBulk})
	p.server.complaints = &telemetry.Log{}
	p.inbox.changed.L = &p.inbox.mu
	p.heartbeat.doubt(p.clock.now()) // Redis may have been away until now
	p.instance.rename()
	return p
}

// listen names the listener. Whoever submits later is sure to be heard by it.
func (p *partition) listen(l storage.Listener) {
	p.inbox.mu.Lock()
	p.listener = l
	p.inbox.mu.Unlock()
}

// submit queues units, and has them carried out if nobody else does that
// already; false if the partition has ended.
func (p *partition) submit(units ...*unit) bool { return p.submitPolling(nil, units...) }

// submitGathering is submit for a caller who has more to submit now and then,
// which more does. It makes the calls as long as there is anything.
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

// do queues upkeep and waits for it.
func (p *partition) do(upkeep func(*call)) error {
	done := make(chan error, 1)
	if !p.submit(&unit{upkeep: upkeep, after: func(err error) { done <- err }}) {
		return storage.ErrClosed
	}
	return <-done
}

// end lets the worker finish what is queued, and waits for it.
func (p *partition) end() {
	p.inbox.end()
	<-p.ended
}

// maxHints bounds how often one hint is told.
const maxWakeUps = 64

// hint tells the listener that there may be jobs in a tube, once for each, or, if
// nobody here wants one, asks Redis to tell another instance.
func (p *partition) wake(w wakeUp) {
	for range min(w.jobs, maxWakeUps) {
		if !p.listener.Ready(w.tube) {
			p.submit(&unit{upkeep: func(c *call) { encodePassWakeUp(c, w.tube) }})
			return
		}
	}
}

// reclaimLater has the next part done of what is to be done about an instance that
// was declared dead, from where the last one ended. The calls of others come in
// between. Should this fail another instance does it after some time.
func (p *partition) reclaimLater(inst string, from int64) {
	p.submit(&unit{upkeep: func(c *call) { p.encodeReclaim(c, inst, from) }})
}
