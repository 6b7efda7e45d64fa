package embedded

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// Engine is a storage.Store on a tube.Machine. The fields from mu on are guarded by mu.
type Engine struct {
	start    time.Time // see now
	clock    func() time.Time
	listener storage.Listener
	journal  *journal // nil: in memory only
	free     func()   // returns memory to the operating system
	metrics  metrics
	freeing  sync.WaitGroup

	backingUp   sync.Mutex      // held while a backup is written
	lifetime    context.Context // ends when Close is called
	endLifetime context.CancelFunc

	mu      sync.Mutex
	machine *tube.Machine
	imports map[string]tables.ImportMark // by source
	ends    endedJobs
	tallies tallies
	saved   jobCheckpoints
	cold    coldJobs
	closed  bool
	trimmer trimmer
	setBack time.Duration // by how much the wall clock was set back, which the listener does not know yet

	// The current hold of the lock:
	budget        int          // work that may still be begun, see partWork
	fullBudget    int          // what budget was at the beginning
	namesLookedUp bool         // a list of names was looked up
	bodiesMissing []bodyNeeded // of answers that lack their bodies
	unfinished    []*task      // batches that were not completely carried out

	taskSize partSize // of tasks
	tickSize partSize // of ticks

	tasks   []*task // for the worker
	working bool    // the worker exists
	noRoom  []*task // wait until the journal has room
	roomAt  tube.Instant
	pending int        // tasks that have not ended, and the sender
	idle    *sync.Cond // signals that pending is 0; for Close

	sending bool         // the sender exists, see deadletters.go
	sendAt  tube.Instant // the sender is not started before
}

// NewMemory returns an engine that keeps its jobs in memory only.
func NewMemory() *Engine { return newEngine(time.Now) }

func newEngine(clock func() time.Time) *Engine {
	e := &Engine{
		start: clock(), clock: clock, machine: tube.NewMachine(), imports: make(map[string]tables.ImportMark), tallies: newTallies(), listener: nopListener{},
		saved: jobCheckpoints{byNumber: make(map[uint64][]byte)}, cold: newColdJobs(),
		free: debug.FreeOSMemory, metrics: newMetrics(), taskSize: newPartSize(partWork), tickSize: newPartSize(tickPart),
	}
	e.idle = sync.NewCond(&e.mu)
	e.ends.mu, e.ends.machine, e.ends.clock = &e.mu, e.machine, clock
	e.ends.most = tube.DefaultHistoryBytes
	e.reportEnds()
	e.machine.OnCheckpoint(e.checkpointSaved)
	e.lifetime, e.endLifetime = context.WithCancel(context.Background())
	return e
}

// nopListener is the listener until Listen is called.
type nopListener struct{}

func (nopListener) WakeUp(string) bool         { return false }
func (nopListener) Waiting(string) int         { return 0 }
func (nopListener) RecordsDue(tube.RecordKind) {}
func (nopListener) Due(time.Duration)          {}

func (nopListener) JobEnded(uint64)            {}
func (nopListener) ClockSetBack(time.Duration) {}

// Listen implements storage.Store.
func (e *Engine) Listen(l storage.Listener) { e.listener = l }

// Do implements storage.Store.
func (e *Engine) Do(batches ...*storage.Batch) { e.DoPolling(nil, batches...) }

// DoPolling implements storage.PollingStore. It calls poll before it syncs the log.
func (e *Engine) DoPolling(poll func(read bool) int, batches ...*storage.Batch) {
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
		e.journal.commit(h.commit, poll)
	}
	e.metrics.calls.Add(int64(e.now() - h.now))
}

// hold is one hold of the lock, under which batches are carried out, and what results from it.
type hold struct {
	now     tube.Instant
	due     tube.Instant // when the next thing was due before
	setBack time.Duration
	next    tube.Instant // when the next thing is due now
	wakeUps []string     // tubes in which a job became ready
	ends    []uint64     // jobs that have ended or are buried, and are awaited
	done    []*storage.Batch
	// commit is the commit that has to be written now: by the caller of Do or, after
	// journal.handOver, by a committer. It is nil if there is none.
	commit *commit
}

// beginHold is called at the beginning of a hold of the lock.
func (e *Engine) beginHold() hold {
	e.budget, e.fullBudget, e.namesLookedUp = partWork, partWork, false
	h := hold{due: e.machine.Next()}
	h.now = e.followWallClock()
	return h
}

// endHold is called at the end of a hold of the lock, after the batches were carried out.
func (e *Engine) endHold(h *hold, batches []*storage.Batch) {
	e.machine.ForgetWatched()
	h.next = e.machine.Next()
	h.wakeUps, h.setBack = e.wakeUps(), e.takeSetBack()
	h.ends = e.machine.EndsNoticed()
	e.startSender()
	batches, changed := e.makeTasks(batches)
	if e.journal == nil || e.closed && e.pending == 0 {
		h.done = batches
		return
	}
	onWritten, onDurable := e.splitByWait(batches)
	h.commit, h.done = e.journal.addBatches(onWritten, onDurable, changed)
}

// afterHold notifies the listener of what a hold has changed, and ends the batches that need
// not wait. The lock is not held.
func (e *Engine) afterHold(h *hold) {
	e.sendWakeUps(h.wakeUps)
	e.sendEnds(h.ends)
	e.sendSetBack(h.setBack)
	if h.next < h.due {
		e.listener.Due(untilDue(h.next, h.now))
	}
	endBatches(h.done)
}

// splitByWait splits batches into those that wait only until their changes are written, and
// those that wait until they are durable. The lock is held.
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

// onlyReserves reports whether a batch has changed and read nothing but reservations of durable
// jobs, and what their holders say of their progress. A reservation does not survive a restart, so the reply need not wait for the disk. The
// lock is held.
func (e *Engine) onlyReserves(b *storage.Batch) bool {
	for i := range b.Ops {
		switch op := &b.Ops[i]; {
		case op.Kind == storage.Ref, op.Kind == storage.ReleaseAll:
		case op.Kind == storage.Move && op.Move == tube.Touch && op.Args != nil && op.Args.Progress != nil:
			if op.ID > e.journal.durableID || op.Holder == tube.LeaseHolder {
				return false
			}
		case op.Kind == storage.Take, op.Kind == storage.Move && op.Move.Brings():
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

// wakeUps returns the tubes in which a job has become ready. The lock is held.
func (e *Engine) wakeUps() []string {
	var names []string
	e.machine.WakeUps(func(tube string) { names = append(names, tube) })
	return names
}

// sendWakeUps passes wake-ups to the listener. The lock is not held.
func (e *Engine) sendWakeUps(names []string) {
	for _, name := range names {
		e.listener.WakeUp(name)
	}
}

// sendEnds tells the listener of jobs that have ended or are buried. The lock is not held.
func (e *Engine) sendEnds(ids []uint64) {
	for _, id := range ids {
		e.listener.JobEnded(id)
	}
}

// Ending announces to other processes that Close will be called soon: until Close has returned,
// Open fails in them with ErrEnding. It must not be called after Close.
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
	e.endBackup()
	e.freeing.Wait()
	if already || e.journal == nil {
		return nil
	}
	return e.journal.close()
}
