package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// harness is a store under test, with helpers for tests. Its methods fail the test when the
// store breaks its contract, whatever the test is about.
type harness struct {
	testing.TB
	engine   *Engine
	store    storage.Store
	listener *listener
	began    time.Time // about the time of the store's clock at the start

	reopens  bool // the store is reopened wherever that changes nothing, see reopenAfter
	reopened int  // how often it was reopened
	refs     int  // connections that use or watch tubes now
}

func newHarness(t testing.TB, e *Engine) *harness {
	b := &harness{TB: t, engine: e, began: time.Now()}
	b.open()
	t.Cleanup(func() { b.close() })
	return b
}

func (b *harness) open() {
	b.listener = &listener{wakeUps: make(map[string]int), due: storage.Forever}
	b.store = b.engine.Open(b)
	b.store.Listen(b.listener)
}

func (b *harness) close() {
	if b.store == nil {
		return
	}
	if err := b.store.Close(); err != nil {
		b.Errorf("closing the store: %v", err)
	}
	b.store = nil
}

// atLength returns n, which is how long a test goes on, or a quarter of it with -short.
func atLength(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// listener is the storage.Listener of a harness.
type listener struct {
	mu      sync.Mutex
	wakeUps map[string]int
	records [tube.NumRecordKinds]int // reports that records are due
	due     time.Duration
	waiters []chan struct{} // see notify
	ended   map[uint64]int  // reports that jobs have ended
}

func (e *listener) WakeUp(tube string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wakeUps[tube]++
	for _, woken := range e.waiters {
		select {
		case woken <- struct{}{}:
		default: // it has not yet seen the last one
		}
	}
	return true
}

func (e *listener) Waiting(string) int { return 0 }

func (e *listener) ClockSetBack(time.Duration) {}

func (e *listener) JobEnded(id uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended == nil {
		e.ended = make(map[uint64]int)
	}
	e.ended[id]++
}

func (e *listener) RecordsDue(kind tube.RecordKind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.records[kind]++
}

func (e *listener) Due(in time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.due = min(e.due, in)
}

// woken returns whether there was a wake-up for the tube since the last call.
func (e *listener) woken(tube string) bool { return e.count(tube) > 0 }

// count returns how many there were.
func (e *listener) count(tube string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.wakeUps[tube]
	delete(e.wakeUps, tube)
	return n
}

// batch carries out operations as one batch.
func (b *harness) batch(ops ...storage.Op) []storage.Op {
	b.Helper()
	sent := lent(ops)
	storage.DoWait(b.store, sent)
	receive(ops, sent)
	for i := range ops {
		if err := ops[i].Answer.Err; err != nil {
			b.Fatalf("operation %d (%v): %v", i, ops[i].Kind, err)
		}
	}
	if b.reopens {
		b.reopenAfter(ops)
	}
	return ops
}

// reopenAfter reopens the store after these operations, in turn after a close and after a
// crash. It does nothing if that would end a reservation or a use of a tube. The listener
// stays the same.
func (b *harness) reopenAfter(done []storage.Op) {
	b.Helper()
	for i := range done {
		if op := &done[i]; op.Kind == storage.Ref {
			b.refs += op.Delta * len(op.Tubes)
		}
	}
	stats := []storage.Op{{Kind: storage.Stats}}
	storage.DoWait(b.store, stats)
	if b.refs != 0 || stats[0].Answer.Stats.Reserved > 0 {
		return
	}
	if b.reopened++; b.reopened%2 == 0 && b.engine.CleanCrash {
		if b.engine.LateReserves { // after a change the counters are durable
			storage.DoWait(b.store, []storage.Op{{Kind: storage.SetPolicy, Tube: "unused", Args: &storage.Args{}}})
		}
		b.engine.Crash(b.store)
	} else {
		b.close()
	}
	listener := b.listener
	b.open()
	b.listener = listener
	b.store.Listen(listener)
}

func (b *harness) do(op storage.Op) storage.Answer {
	b.Helper()
	return b.batch(op)[0].Answer
}

// putWith puts a job and returns its id.
func (b *harness) putWith(name string, pri, delay, ttr uint32, body string) uint64 {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Put, Tube: name, Pri: pri, Delay: delay, TTR: ttr, Body: []byte(body)}).ID
}

func (b *harness) put(name string, pri uint32) uint64 {
	b.Helper()
	return b.putWith(name, pri, 0, 60, "body")
}

// take reserves from the tubes; 0 if there is no job.
func (b *harness) take(h tube.Holder, tubes ...string) uint64 {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.Take, Holder: h, Tubes: tubes, Wait: true})
	if a.NotFound {
		return 0
	}
	return a.ID
}

// wantTake checks which jobs come out, in this order, and that no more follow.
func (b *harness) wantTake(h tube.Holder, name string, ids ...uint64) {
	b.Helper()
	for _, want := range append(slices.Clip(ids), 0) {
		if got := b.take(h, name); got != want {
			b.Fatalf("took job %d from %s, want %d", got, name, want)
		}
	}
}

// move does a move and returns whether it was possible.
func (b *harness) move(m tube.Move, h tube.Holder, id uint64, pri, delay uint32) bool {
	b.Helper()
	return !b.do(storage.Op{Kind: storage.Move, Move: m, Holder: h, ID: id, Pri: pri, Delay: delay}).NotFound
}

func (b *harness) must(m tube.Move, h tube.Holder, id uint64) {
	b.Helper()
	if !b.move(m, h, id, 0, 0) {
		b.Fatalf("%v of job %d was not possible", m, id)
	}
}

func (b *harness) kick(name string, limit uint32) int {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Kick, Tube: name, MaxJobs: limit}).Count
}

func (b *harness) head(name string, s tube.State) uint64 {
	b.Helper()
	return b.do(storage.Op{Kind: storage.PeekHead, Tube: name, State: s}).ID
}

func (b *harness) pause(name string, seconds uint32) bool {
	b.Helper()
	return !b.do(storage.Op{Kind: storage.Pause, Tube: name, Delay: seconds}).NotFound
}

func (b *harness) ref(role tube.Role, delta int, names ...string) {
	b.Helper()
	b.do(storage.Op{Kind: storage.Ref, Role: role, Delta: delta, Tubes: names})
}

func (b *harness) releaseAll(h tube.Holder) {
	b.Helper()
	b.do(storage.Op{Kind: storage.ReleaseAll, Holder: h})
}

// giveBack is releaseAll followed by a change, so that a crash keeps the reservations, see
// Engine.LateReserves.
func (b *harness) giveBack(h tube.Holder) {
	b.Helper()
	b.batch(storage.Op{Kind: storage.ReleaseAll, Holder: h}, storage.Op{Kind: storage.Pause, Tube: tube.Default, Delay: 0})
}

// job returns the stats of a job; the state is Gone if there is none.
func (b *harness) job(id uint64) tube.JobStats {
	b.Helper()
	if s := b.do(storage.Op{Kind: storage.JobStats, ID: id}).Job; s != nil {
		return *s
	}
	return tube.JobStats{}
}

// tube returns the stats of a tube; nil if there is none.
func (b *harness) tube(name string) *tube.TubeStats {
	b.Helper()
	return b.do(storage.Op{Kind: storage.TubeStats, Tube: name}).TubeStats
}

func (b *harness) totals() tube.Totals {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Stats}).Stats.Totals
}

func (b *harness) tubes() []string {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Tubes}).Names
}

// advance moves the clock and lets the store do all that is due then. It returns how
// long until the next thing is due.
func (b *harness) advance(d time.Duration) time.Duration {
	b.Helper()
	b.engine.Advance(d)
	for {
		next, err := b.store.Tick()
		if err != nil {
			b.Fatalf("tick: %v", err)
		}
		if next > 0 {
			return next
		}
	}
}
