package embedded

import (
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// tickLimit bounds how many due things one Tick does under the lock.
const tickLimit = 1000

// Engine is a storage.Store on a tube.Machine.
type Engine struct {
	start    time.Time // see now
	clock    func() time.Time
	listener storage.Listener
	journal  *journal // nil: in memory only

	mu      sync.Mutex
	machine *tube.Machine
	absent  []absent // of the batches being carried out
	closed  bool
}

// NewMemory returns an engine that keeps its jobs in memory only.
func NewMemory() *Engine { return newEngine(time.Now) }

func newEngine(clock func() time.Time) *Engine {
	return &Engine{start: clock(), clock: clock, machine: tube.NewMachine(), listener: deaf{}}
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
	now := e.now()
	due := e.machine.Next()
	for _, b := range batches {
		e.carryOut(now, b)
	}
	next := e.machine.Next()
	roused := e.takeRoused()
	if e.journal == nil || e.closed {
		e.mu.Unlock()
		e.announce(now, due, next, roused)
		done(batches)
		return
	}
	batches, needs := e.fetchAside(batches)
	early, bound := e.divide(batches)
	lead, ready := e.journal.submit(early, bound, needs)
	e.mu.Unlock()

	e.announce(now, due, next, roused)
	done(ready)
	if lead != nil {
		e.journal.lead(lead, more)
	}
}

// announce tells the listener what has come of a call.
func (e *Engine) announce(now, due, next tube.Instant, roused []string) {
	e.tell(roused)
	if next < due {
		e.listener.Due(next.Until(now))
	}
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

// carryOut does the operations of a batch. The lock is held.
func (e *Engine) carryOut(now tube.Instant, b *storage.Batch) {
	for i := range b.Ops {
		op := &b.Ops[i]
		op.Answer = storage.Answer{}
		if e.closed {
			op.Answer.Err = storage.ErrClosed
			continue
		}
		e.apply(now, b, op)
	}
}

func done(batches []*storage.Batch) {
	for _, b := range batches {
		b.Done()
	}
}

// Tick implements storage.Store.
func (e *Engine) Tick() (time.Duration, error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return storage.Forever, storage.ErrClosed
	}
	now := e.now()
	next := e.machine.Tick(now, tickLimit)
	roused := e.takeRoused()
	var lead *group
	if e.journal != nil {
		if lead, _ = e.journal.submit(nil, nil, true); lead == nil {
			lead = e.journal.tidy()
		}
	}
	e.mu.Unlock()

	if lead != nil {
		e.journal.lead(lead, nil)
	}
	e.tell(roused)
	return next.Until(now), nil
}

// takeRoused collects the tubes to hint at. The lock is held.
func (e *Engine) takeRoused() []string {
	var names []string
	e.machine.Roused(func(tube string) { names = append(names, tube) })
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
	e.mu.Unlock()
	if already || e.journal == nil {
		return nil
	}
	return e.journal.close()
}
