package embedded

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// tickPart is how many due things are done under one hold of the lock, and
// tickParts how many such parts one Tick does at most.
const (
	tickPart  = 256
	tickParts = 16
)

// Engine is a storage.Store on a tube.Machine.
type Engine struct {
	start    time.Time // see now
	clock    func() time.Time
	listener storage.Listener
	journal  *journal // nil: in memory only

	mu      sync.Mutex
	machine *tube.Machine
	closed  bool

	left       int      // work that may be begun under this hold of the lock
	listed     bool     // names were looked up under it
	absent     []absent // of the batches being carried out
	unfinished []*task  // of these batches

	tasks   []*task // for the worker to go on with
	crowd   []*task // waiting until the journal has room
	roomAt  tube.Instant
	working bool
	pending int        // tasks that are not ended
	idle    *sync.Cond // for Close: pending is 0

	quiet   quiet
	free    func() // gives memory back
	freeing sync.WaitGroup
}

// NewMemory returns an engine that keeps its jobs in memory only.
func NewMemory() *Engine { return newEngine(time.Now) }

func newEngine(clock func() time.Time) *Engine {
	e := &Engine{start: clock(), clock: clock, machine: tube.NewMachine(), listener: deaf{}, free: debug.FreeOSMemory}
	e.idle = sync.NewCond(&e.mu)
	return e
}

// deaf is the listener until there is one.
type deaf struct{}

func (deaf) Ready(string) bool  { return false }
func (deaf) Waiting(string) int { return 0 }
func (deaf) Due(time.Duration)  {}

// Listen implements storage.Store.
func (e *Engine) Listen(l storage.Listener) { e.listener = l }

// now reads the clock. It follows the wall clock at the start and the
// monotonic one from then on, so that a step of the former moves no deadline.
func (e *Engine) now() tube.Instant {
	return tube.Instant(e.start.UnixNano() + int64(e.clock().Sub(e.start)))
}

// Do implements storage.Store.
func (e *Engine) Do(batches ...*storage.Batch) { e.DoGathering(nil, batches...) }

// DoGathering implements storage.Gatherer: what is slow is a sync of the log.
func (e *Engine) DoGathering(more func() int, batches ...*storage.Batch) {
	e.mu.Lock()
	if e.journal != nil {
		e.journal.throttle()
	}
	h := e.begin()
	e.quiet.worked += uint64(len(batches))
	for _, b := range batches {
		if t := e.run(h.now, b, 0, progress{}); t != nil {
			e.unfinished = append(e.unfinished, t)
		}
	}
	e.end(&h, batches)
	if h.lead != nil && h.lead.heavy() {
		e.journal.hand()
		h.lead = nil
	}
	e.mu.Unlock()

	e.follow(&h)
	if h.lead != nil {
		e.journal.lead(h.lead, more)
	}
}

// hold is one hold of the lock, and what has come of it.
type hold struct {
	now, due, next tube.Instant // due and next: when the next thing was and is due
	roused         []string
	ready          []*storage.Batch // are done
	lead           *group           // to be written by the caller, or handed to the follower
}

// begin begins a hold of the lock, which is held.
func (e *Engine) begin() hold {
	e.left, e.listed = partWork, false
	return hold{now: e.now(), due: e.machine.Next()}
}

// end ends a hold of the lock, under which batches were carried out.
func (e *Engine) end(h *hold, batches []*storage.Batch) {
	e.machine.ForgetWatched()
	h.next = e.machine.Next()
	h.roused = e.takeRoused()
	batches, needs := e.aside(batches)
	if e.journal == nil || e.closed && e.pending == 0 {
		h.ready = batches
		return
	}
	early, bound := e.divide(batches)
	h.lead, h.ready = e.journal.submit(early, bound, needs)
}

// follow tells the listener what has come of a hold, and ends batches. The lock
// is not held.
func (e *Engine) follow(h *hold) {
	e.tell(h.roused)
	if h.next < h.due {
		e.listener.Due(h.next.Until(h.now))
	}
	done(h.ready)
}

// divide tells the batches that have to wait for the disk from those that are
// early ones. The lock is held.
func (e *Engine) divide(batches []*storage.Batch) (early, bound []*storage.Batch) {
	n := len(batches)
	room := make([]*storage.Batch, 2*n)
	early, bound = room[:0:n], room[n:n]
	for _, b := range batches {
		if !b.InTurn && e.onlyReserves(b) {
			early = append(early, b)
		} else {
			bound = append(bound, b)
		}
	}
	return early, bound
}

// onlyReserves tells whether a batch has changed and seen nothing but
// reservations of jobs that are on the disk. A reservation does not survive a
// restart, so that there is no reason to wait for the disk. The lock is held.
func (e *Engine) onlyReserves(b *storage.Batch) bool {
	for i := range b.Ops {
		switch op := &b.Ops[i]; {
		case op.Kind == storage.Attend, op.Kind == storage.Leave:
		case op.Kind == storage.Take, op.Kind == storage.Move && op.Move == tube.ReserveJob:
			if op.Answer.ID > e.journal.durable {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func done(batches []*storage.Batch) {
	for _, b := range batches {
		b.Done()
	}
}

// Tick implements storage.Store.
func (e *Engine) Tick() (time.Duration, error) {
	for range tickParts - 1 {
		next, now, err := e.tickPart()
		if err != nil || next > now {
			break
		}
		runtime.Gosched()
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return storage.Forever, storage.ErrClosed
	}
	now, next := e.now(), e.machine.Next()
	if e.quiet.over(now) {
		e.freeing.Go(e.free)
	}
	var lead *group
	if e.journal != nil {
		if len(e.crowd) > 0 && now-e.roomAt > maxWait {
			e.admit(true)
		}
		if lead, _ = e.journal.submit(nil, nil, true); lead == nil {
			lead = e.journal.tidy()
		}
	}
	e.mu.Unlock()

	if lead != nil {
		e.journal.lead(lead, nil)
	}
	return next.Until(now), nil
}

// tickPart does a part of what is due.
func (e *Engine) tickPart() (next, now tube.Instant, err error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return 0, 0, storage.ErrClosed
	}
	now = e.now()
	next = e.machine.Tick(now, tickPart)
	roused := e.takeRoused()
	e.mu.Unlock()
	e.tell(roused)
	return next, now, nil
}

// takeRoused collects the tubes to hint at. The lock is held.
func (e *Engine) takeRoused() []string {
	var names []string
	e.machine.Hints(func(tube string) { names = append(names, tube) })
	return names
}

func (e *Engine) tell(roused []string) {
	for _, name := range roused {
		e.listener.Ready(name)
	}
}

// Close implements storage.Store.
func (e *Engine) Close() error {
	e.mu.Lock()
	already := e.closed
	e.closed = true
	for e.pending > 0 {
		e.idle.Wait()
	}
	e.mu.Unlock()
	e.freeing.Wait()
	if already || e.journal == nil {
		return nil
	}
	return e.journal.close()
}
