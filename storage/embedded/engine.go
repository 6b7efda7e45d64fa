package embedded

import (
	"runtime/debug"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// Engine is a storage.Store on a tube.Machine. The fields from mu on are guarded by
// mu.
type Engine struct {
	start    time.Time // see now
	clock    func() time.Time
	listener storage.Listener
	journal  *journal // nil: in memory only
	free     func()   // gives memory back to the operating system
	metrics  metrics
	freeing  sync.WaitGroup

	mu      sync.Mutex
	machine *tube.Machine
	imports map[string]tables.ImportMark // by their sources
	closed  bool
	trimmer trimmer

	// These are about the present hold of the lock.
	budget        int          // work that may still be begun, see partWork
	fullBudget    int          // what budget was at first
	namesLookedUp bool         // a list of names was looked up
	bodiesMissing []bodyNeeded // by batches that were carried out
	unfinished    []*task      // batches that were not carried out completely

	taskSize batchSize // of tasks
	tickSize batchSize // of ticks

	tasks   []*task // that the worker has to go on with
	working bool    // there is a worker
	noRoom  []*task // that wait until the journal has room
	roomAt  tube.Instant
	pending int        // tasks that are not ended, and the sender
	idle    *sync.Cond // signals that pending is 0, for Close

	sending bool         // there is a sender, see deadletters.go
	sendAt  tube.Instant // before that, there is none
}

// NewMemory returns an engine that keeps its jobs in memory only.
func NewMemory() *Engine { return newEngine(time.Now) }

func newEngine(clock func() time.Time) *Engine {
	e := &Engine{
		start: clock(), clock: clock, machine: tube.NewMachine(), imports: make(map[string]tables.ImportMark), listener: nopListener{},
		free: debug.FreeOSMemory, metrics: newMetrics(), taskSize: newBatchSize(partWork), tickSize: newBatchSize(tickPart),
	}
	e.idle = sync.NewCond(&e.mu)
	return e
}

// deaf is the listener until Listen is called.
type nopListener struct{}

func (nopListener) Ready(string) bool  { return false }
func (nopListener) Waiting(string) int { return 0 }
func (nopListener) Due(time.Duration)  {}

// Listen implements storage.Store.
func (e *Engine) Listen(l storage.Listener) { e.listener = l }

// now reads the clock. It takes the wall clock once, at the start, and then adds
// what the monotonic clock says: so a step of the wall clock moves no deadline.
func (e *Engine) now() tube.Instant {
	return tube.Instant(e.start.UnixNano() + int64(e.clock().Sub(e.start)))
}

// Do implements storage.Store.
func (e *Engine) Do(batches ...*storage.Batch) { e.DoPolling(nil, batches...) }

// DoGathering implements storage.Gatherer. What is slow is a sync of the log.
func (e *Engine) DoPolling(more func(look bool) int, batches ...*storage.Batch) {
	e.mu.Lock()
	if e.journal != nil {
		e.journal.awaitTables()
	}
	h := e.beginHold()
	e.trimmer.work += uint64(len(batches))
	e.metrics.countOperations(batches)
	for _, b := range batches {
		if t := e.runBatch(h.now, b, 0, progress{}); t != nil {
			e.unfinished = append(e.unfinished, t)
		}
	}
	e.endHold(&h, batches)
	if h.commit != nil && e.journal.forCommitter(h.commit) {
		e.journal.handOver()
		h.commit = nil
	}
	e.mu.Unlock()

	e.afterHold(&h)
	if h.commit != nil {
		e.journal.commit(h.commit, more)
	}
	e.metrics.calls.Add(int64(e.now() - h.now))
}

// hold is one hold of the lock under which batches are carried out, and what has
// come of it.
type hold struct {
	now     tube.Instant
	due     tube.Instant // when the next thing was due before
	next    tube.Instant // when the next thing is due now
	wakeUps []string     // tubes in which a job became ready
	done    []*storage.Batch
	// commit is the group that has to be written now: by the caller of Do, or,
	// after journal.handOver, by a committer. Nil: there is none.
	commit *group
}

// beginHold is called first under a hold of the lock.
func (e *Engine) beginHold() hold {
	e.budget, e.fullBudget, e.namesLookedUp = partWork, partWork, false
	return hold{now: e.now(), due: e.machine.Next()}
}

// endHold is called last under a hold of the lock, after the batches were carried
// out.
func (e *Engine) endHold(h *hold, batches []*storage.Batch) {
	e.machine.ForgetWatched()
	h.next = e.machine.Next()
	h.wakeUps = e.wakeUps()
	e.startSender()
	batches, changed := e.makeTasks(batches)
	if e.journal == nil || e.closed && e.pending == 0 {
		h.done = batches
		return
	}
	onWritten, onDurable := e.splitByWait(batches)
	h.commit, h.done = e.journal.addBatches(onWritten, onDurable, changed)
}

// afterHold tells the listener what has come of a hold, and ends the batches that
// need not wait. The lock is not held.
func (e *Engine) afterHold(h *hold) {
	e.sendWakeUps(h.wakeUps)
	if h.next < h.due {
		e.listener.Due(h.next.Until(h.now))
	}
	endBatches(h.done)
}

// splitByWait splits batches into those that only wait until their changes are
// written, and those that wait until they are durable. The lock is held.
func (e *Engine) splitByWait(batches []*storage.Batch) (onWritten, onDurable []*storage.Batch) {
	n := len(batches)
	room := make([]*storage.Batch, 2*n)
	onWritten, onDurable = room[:0:n], room[n:n]
	for _, b := range batches {
		if !b.Ordered && e.onlyReserves(b) {
			onWritten = append(onWritten, b)
		} else {
			onDurable = append(onDurable, b)
		}
	}
	return onWritten, onDurable
}

// onlyReserves reports whether a batch has changed and seen nothing but
// reservations of jobs that are durable. A reservation does not survive a restart,
// so the reply need not wait for the disk. The lock is held.
func (e *Engine) onlyReserves(b *storage.Batch) bool {
	for i := range b.Ops {
		switch op := &b.Ops[i]; {
		case op.Kind == storage.Ref, op.Kind == storage.ReleaseAll:
		case op.Kind == storage.Take, op.Kind == storage.Move && op.Move == tube.ReserveJob:
			if op.Answer.ID > e.journal.durableID || op.Holder == tube.LeaseHolder {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// endBatches calls Done of each batch. The lock is not held.
func endBatches(batches []*storage.Batch) {
	for _, b := range batches {
		b.Done()
	}
}

// takeHints returns the tubes in which a job has become ready. The lock is held.
func (e *Engine) wakeUps() []string {
	var names []string
	e.machine.WakeUps(func(tube string) { names = append(names, tube) })
	return names
}

// sendHints tells the listener. The lock is not held.
func (e *Engine) sendWakeUps(names []string) {
	for _, name := range names {
		e.listener.Ready(name)
	}
}

// Ending lets other processes see that Close will be called soon: until it is done, Open fails
// there with ErrEnding. It must not be called later than Close.
func (e *Engine) Ending() {
	if e.journal != nil {
		shareFlock(e.journal.lock.dir)
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
