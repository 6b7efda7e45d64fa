package storetest

import (
	"sync"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// rig is a store under test, and what tests do to it. Its methods fail the test when the
// store breaks its contract, whatever the test is about.
type rig struct {
	testing.TB
	engine *Engine
	store  storage.Store
	ear    *ear
	began  time.Time // about when the clock of the store was at its start

	reopens   bool // the store is opened anew wherever that changes nothing, see reopenAfter
	reopened  int  // how often it was
	attending int  // attendances that there are now
}

func newRig(t testing.TB, e *Engine) *rig {
	b := &rig{TB: t, engine: e, began: time.Now()}
	b.open()
	t.Cleanup(func() { b.close() })
	return b
}

func (b *rig) open() {
	b.ear = &ear{ready: make(map[string]int), due: storage.Forever}
	b.store = b.engine.Open(b)
	b.store.Listen(b.ear)
}

func (b *rig) close() {
	if b.store == nil {
		return
	}
	if err := b.store.Close(); err != nil {
		b.Errorf("closing the store: %v", err)
	}
	b.store = nil
}

// ear is the listener of a rig.
type ear struct {
	mu    sync.Mutex
	ready map[string]int
	due   time.Duration
}

func (e *ear) Ready(tube string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready[tube]++
	return true
}

func (e *ear) Waiting(string) int { return 0 }

func (e *ear) Due(in time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.due = min(e.due, in)
}

// heard returns whether there was a hint for the tube since the last call.
func (e *ear) heard(tube string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.ready[tube]
	delete(e.ready, tube)
	return n > 0
}

// batch carries out operations as one batch.
func (b *rig) batch(ops ...storage.Op) []storage.Op {
	b.Helper()
	given := lent(ops)
	storage.DoWait(b.store, given)
	receive(ops, given)
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

// reopenAfter opens the store anew after these operations. It closes and crashes it by
// turns. It does nothing if a reservation or an attendance would end by that. The listener
// stays the same.
func (b *rig) reopenAfter(done []storage.Op) {
	b.Helper()
	for i := range done {
		if op := &done[i]; op.Kind == storage.Ref {
			b.attending += op.Delta * len(op.Tubes)
		}
	}
	stats := []storage.Op{{Kind: storage.Stats}}
	storage.DoWait(b.store, stats)
	if b.attending != 0 || stats[0].Answer.Stats.Reserved > 0 {
		return
	}
	if b.reopened++; b.reopened%2 == 0 && b.engine.CleanCrash {
		if b.engine.LateReserves { // a change after which the counters are kept
			storage.DoWait(b.store, []storage.Op{{Kind: storage.SetPolicy, Tube: "nobody's", Args: &storage.Args{}}})
		}
		b.engine.Crash(b.store)
	} else {
		b.close()
	}
	ear := b.ear
	b.open()
	b.ear = ear
	b.store.Listen(ear)
}

func (b *rig) do(op storage.Op) storage.Answer {
	b.Helper()
	return b.batch(op)[0].Answer
}

// putWith puts a job and returns its id.
func (b *rig) putWith(name string, pri, delay, ttr uint32, body string) uint64 {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Put, Tube: name, Pri: pri, Delay: delay, TTR: ttr, Body: []byte(body)}).ID
}

func (b *rig) put(name string, pri uint32) uint64 {
	b.Helper()
	return b.putWith(name, pri, 0, 60, "body")
}

// take reserves from the tubes; 0 if there is no job.
func (b *rig) take(h tube.Holder, tubes ...string) uint64 {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.Take, Holder: h, Tubes: tubes, Wait: true})
	if a.NotFound {
		return 0
	}
	return a.ID
}

// wantTake checks which jobs come out, in this order, and then no more.
func (b *rig) wantTake(h tube.Holder, name string, ids ...uint64) {
	b.Helper()
	for _, want := range append(ids, 0) {
		if got := b.take(h, name); got != want {
			b.Fatalf("took job %d from %s, want %d", got, name, want)
		}
	}
}

// move does a move and returns whether it applied.
func (b *rig) move(m tube.Move, h tube.Holder, id uint64, pri, delay uint32) bool {
	b.Helper()
	return !b.do(storage.Op{Kind: storage.Move, Move: m, Holder: h, ID: id, Pri: pri, Delay: delay}).NotFound
}

func (b *rig) must(m tube.Move, h tube.Holder, id uint64) {
	b.Helper()
	if !b.move(m, h, id, 0, 0) {
		b.Fatalf("%v of job %d did not apply", m, id)
	}
}

func (b *rig) kick(name string, bound uint32) int {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Kick, Tube: name, MaxJobs: bound}).Count
}

func (b *rig) head(name string, s tube.State) uint64 {
	b.Helper()
	return b.do(storage.Op{Kind: storage.PeekHead, Tube: name, State: s}).ID
}

func (b *rig) pause(name string, seconds uint32) bool {
	b.Helper()
	return !b.do(storage.Op{Kind: storage.Pause, Tube: name, Delay: seconds}).NotFound
}

func (b *rig) attend(role tube.Role, delta int, names ...string) {
	b.Helper()
	b.do(storage.Op{Kind: storage.Ref, Role: role, Delta: delta, Tubes: names})
}

func (b *rig) leave(h tube.Holder) {
	b.Helper()
	b.do(storage.Op{Kind: storage.ReleaseAll, Holder: h})
}

// giveBack is leave, with a change behind it: so that a crash keeps the reservations, see
// Engine.LateReserves.
func (b *rig) giveBack(h tube.Holder) {
	b.Helper()
	b.batch(storage.Op{Kind: storage.ReleaseAll, Holder: h}, storage.Op{Kind: storage.Pause, Tube: tube.Default, Delay: 0})
}

// job returns the stats of a job; its state is Gone if there is none.
func (b *rig) job(id uint64) tube.JobStats {
	b.Helper()
	if s := b.do(storage.Op{Kind: storage.JobStats, ID: id}).Job; s != nil {
		return *s
	}
	return tube.JobStats{}
}

// tube returns the stats of a tube; nil if there is none.
func (b *rig) tube(name string) *tube.TubeStats {
	b.Helper()
	return b.do(storage.Op{Kind: storage.TubeStats, Tube: name}).TubeStats
}

func (b *rig) totals() tube.Totals {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Stats}).Stats.Totals
}

func (b *rig) tubes() []string {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Tubes}).Names
}

// advance moves the clock and has the store do all that is due then. It
// returns how long until the next thing.
func (b *rig) advance(d time.Duration) time.Duration {
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
