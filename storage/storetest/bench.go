package storetest

import (
	"sync"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Engine is one engine with data of its own.
type Engine struct {
	// Open opens a store on the data, which is empty the first time.
	Open func(t testing.TB) storage.Store

	// Crash ends a store as if its process had been killed, without Close.
	// Nil if the engine keeps nothing.
	Crash func(storage.Store)

	// Advance moves the clock of the store forward.
	Advance func(time.Duration)

	// Durable says that another Open finds what was acknowledged before.
	Durable bool

	// KeepsTubes says that another Open finds the counters and the order of
	// tubes as well, and the totals.
	KeepsTubes bool

	// RestartEvery is after how many steps on average a random history has
	// the store opened anew; 0 means 100. 1 is after every step, and after
	// every batch of a case at which nothing ends that way.
	RestartEvery int

	// Unit is how many seconds the times of random histories are multiples of; 0
	// means 1. It is for a store whose clock goes on by itself: on a machine that
	// has much to do, a second passes within few operations.
	Unit int

	// Brief makes random histories that many times shorter; 0 means 1.
	Brief int

	// LargeBodies says that of so many bodies in a random history one is
	// large, up to 100 KB; 0 means none.
	LargeBodies int

	// LateReserves says that a Crash may lose the trace of the last
	// reservations: all after the last acknowledged change of another kind.
	LateReserves bool

	// CleanCrash says that after a Crash another Open finds nobody holding
	// anything, as after Close; histories restart in both ways then.
	CleanCrash bool
}

// Run runs the suite. fresh returns an engine with no data.
func Run(t *testing.T, fresh func(testing.TB) *Engine) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, fresh(t))
			b.restless = b.engine.RestartEvery == 1 && b.engine.Durable && !countsOn[name]
			test(b)
		})
	}
	t.Run("histories", func(t *testing.T) { runHistories(t, fresh) })
}

// bench is a store under test, with words for what tests do to it.
type bench struct {
	testing.TB
	engine *Engine
	store  storage.Store
	ear    *ear

	restless  bool // has the store opened anew wherever it can, see restart
	restarts  int
	attending int
}

func newBench(t testing.TB, e *Engine) *bench {
	b := &bench{TB: t, engine: e}
	b.open()
	t.Cleanup(func() { b.close() })
	return b
}

func (b *bench) open() {
	b.ear = &ear{ready: make(map[string]int), due: storage.Forever}
	b.store = b.engine.Open(b)
	b.store.Listen(b.ear)
}

func (b *bench) close() {
	if b.store == nil {
		return
	}
	if err := b.store.Close(); err != nil {
		b.Errorf("closing the store: %v", err)
	}
	b.store = nil
}

// ear is the listener of a bench.
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

// batch carries out operations together.
func (b *bench) batch(ops ...storage.Op) []storage.Op {
	b.Helper()
	storage.DoWait(b.store, ops)
	for i := range ops {
		if err := ops[i].Answer.Err; err != nil {
			b.Fatalf("operation %d (%v): %v", i, ops[i].Kind, err)
		}
	}
	if b.restless {
		b.restart(ops)
	}
	return ops
}

// restart opens the store anew after these operations, by turns closed and
// crashed before, unless a reservation or an attendance would end with that.
// Whoever listens does not notice.
func (b *bench) restart(done []storage.Op) {
	b.Helper()
	for i := range done {
		if op := &done[i]; op.Kind == storage.Attend {
			b.attending += op.Delta * len(op.Tubes)
		}
	}
	stats := []storage.Op{{Kind: storage.Stats}}
	storage.DoWait(b.store, stats)
	if b.attending != 0 || stats[0].Answer.Stats.Reserved > 0 {
		return
	}
	if b.restarts++; b.restarts%2 == 0 && b.engine.CleanCrash {
		b.engine.Crash(b.store)
	} else {
		b.close()
	}
	ear := b.ear
	b.open()
	b.ear = ear
	b.store.Listen(ear)
}

func (b *bench) do(op storage.Op) storage.Answer {
	b.Helper()
	return b.batch(op)[0].Answer
}

// putWith puts a job and returns its id.
func (b *bench) putWith(name string, pri, delay, ttr uint32, body string) uint64 {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Put, Tube: name, Pri: pri, Delay: delay, TTR: ttr, Body: []byte(body)}).ID
}

func (b *bench) put(name string, pri uint32) uint64 {
	b.Helper()
	return b.putWith(name, pri, 0, 60, "body")
}

// take reserves from the tubes; 0 if there is no job.
func (b *bench) take(h tube.Holder, tubes ...string) uint64 {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.Take, Holder: h, Tubes: tubes, Wait: true})
	if a.NotFound {
		return 0
	}
	return a.ID
}

// wantTake checks which jobs come out, in this order, and then no more.
func (b *bench) wantTake(h tube.Holder, name string, ids ...uint64) {
	b.Helper()
	for _, want := range append(ids, 0) {
		if got := b.take(h, name); got != want {
			b.Fatalf("took job %d from %s, want %d", got, name, want)
		}
	}
}

// move does a move and returns whether it applied.
func (b *bench) move(m tube.Move, h tube.Holder, id uint64, pri, delay uint32) bool {
	b.Helper()
	return !b.do(storage.Op{Kind: storage.Move, Move: m, Holder: h, ID: id, Pri: pri, Delay: delay}).NotFound
}

func (b *bench) must(m tube.Move, h tube.Holder, id uint64) {
	b.Helper()
	if !b.move(m, h, id, 0, 0) {
		b.Fatalf("%v of job %d did not apply", m, id)
	}
}

func (b *bench) kick(name string, bound uint32) int {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Kick, Tube: name, Bound: bound}).Count
}

func (b *bench) head(name string, s tube.State) uint64 {
	b.Helper()
	return b.do(storage.Op{Kind: storage.PeekHead, Tube: name, State: s}).ID
}

func (b *bench) pause(name string, seconds uint32) bool {
	b.Helper()
	return !b.do(storage.Op{Kind: storage.Pause, Tube: name, Delay: seconds}).NotFound
}

func (b *bench) attend(role tube.Role, delta int, names ...string) {
	b.Helper()
	b.do(storage.Op{Kind: storage.Attend, Role: role, Delta: delta, Tubes: names})
}

func (b *bench) leave(h tube.Holder) {
	b.Helper()
	b.do(storage.Op{Kind: storage.Leave, Holder: h})
}

// job tells about a job; its state is Gone if there is none.
func (b *bench) job(id uint64) tube.JobStats {
	b.Helper()
	if s := b.do(storage.Op{Kind: storage.JobStats, ID: id}).Job; s != nil {
		return *s
	}
	return tube.JobStats{}
}

// tube tells about a tube; nil if there is none.
func (b *bench) tube(name string) *tube.TubeStats {
	b.Helper()
	return b.do(storage.Op{Kind: storage.TubeStats, Tube: name}).TubeStats
}

func (b *bench) totals() tube.Totals {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Stats}).Stats.Totals
}

func (b *bench) tubes() []string {
	b.Helper()
	return b.do(storage.Op{Kind: storage.Tubes}).Names
}

// advance moves the clock and has the store do all that is due then. It
// returns how long until the next thing.
func (b *bench) advance(d time.Duration) time.Duration {
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
