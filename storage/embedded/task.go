package embedded

import (
	"runtime"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// task is a batch that is not done under one hold of the lock: it is more work than partWork,
// has to wait for room in the journal, or lacks bodies that are on disk only.
type task struct {
	batch   *storage.Batch
	next    int           // the first of its operations that is not done
	missing []*storage.Op // operations whose answers lack their bodies
	progress
}

// progress is how much of the operation task.next is done.
type progress struct {
	bodyNeeds
	cold      *coldNeeds
	begun     bool
	needsRoom bool       // it waits until the journal has room
	forced    bool       // it has waited long enough
	done      int        // jobs kicked, moved or settled, tubes referenced, or schedules or batches claimed
	limit     int        // jobs to kick or to move, or schedules or batches to claim
	from      tube.State // of the jobs to kick
	flush     *tube.Flush
	cancel    *tube.Cancellation
	list      *tube.Listing
	groups    *tube.GroupListing
	tallies   *talliesRead
	ended     *endedPage
}

func (t *task) ended() bool { return t.next == len(t.batch.Ops) }

// runBatch carries out the operations of a batch from index next on, of which p is done. If it
// cannot do them all under this hold of the lock, it returns the rest as a task. The lock is
// held.
func (e *Engine) runBatch(now tube.Instant, b *storage.Batch, next int, p progress) (rest *task) {
	for ; next < len(b.Ops); next++ {
		op := &b.Ops[next]
		if !p.begun {
			op.Answer = storage.Answer{}
		}
		if e.closed && !p.begun && next == 0 {
			refuse(b)
			break
		}
		done := true
		if err := p.unreadCold(); err != nil {
			op.Answer = unreadable(err)
		} else {
			done = !e.awaitsCold(op, &p) && e.apply(now, b, op, &p)
		}
		e.dropLoaded(&p)
		if !done {
			rest = &task{batch: b, next: next, progress: p}
			break
		}
		e.dropCold(&p)
		p = progress{}
	}
	if e.journal != nil {
		e.journal.endFrame()
	}
	return rest
}

// refuse answers a batch that comes after Close. A batch that was begun before Close is carried
// out.
func refuse(b *storage.Batch) {
	for i := range b.Ops {
		b.Ops[i].Answer = storage.Answer{Err: storage.ErrClosed}
		b.Ops[i].Buffer.Release()
	}
}

// makeTasks makes tasks of the batches that are unfinished or lack bodies, and starts them. It
// returns the other batches, and whether one of the tasks has made a change that must become
// durable. The lock is held.
func (e *Engine) makeTasks(batches []*storage.Batch) (done []*storage.Batch, changed bool) {
	if len(e.bodiesMissing) == 0 && len(e.unfinished) == 0 {
		return batches, false
	}
	var lacking []*task
	for _, b := range batches {
		t := e.taskOf(b)
		if len(t.missing) == 0 && t.ended() {
			done = append(done, b)
			continue
		}
		e.pending++
		changed = changed || !t.ended() || !e.onlyReserves(b)
		if len(t.missing) > 0 {
			lacking = append(lacking, t)
		} else {
			e.enqueue(t)
		}
	}
	e.bodiesMissing, e.unfinished = nil, nil
	if len(lacking) > 0 {
		e.fetchBodies(lacking)
	}
	return done, changed
}

// taskOf returns what is left to do of a batch. It takes that from the heads of unfinished and
// bodiesMissing, which are in the order of the batches.
func (e *Engine) taskOf(b *storage.Batch) *task {
	t := &task{batch: b, next: len(b.Ops)}
	if len(e.unfinished) > 0 && e.unfinished[0].batch == b {
		t, e.unfinished = e.unfinished[0], e.unfinished[1:]
	}
	for len(e.bodiesMissing) > 0 && e.bodiesMissing[0].batch == b {
		t.missing, e.bodiesMissing = append(t.missing, e.bodiesMissing[0].op), e.bodiesMissing[1:]
	}
	return t
}

// enqueue gives a task to the worker: now, or when its bodies or tallies are loaded, or when the journal
// has room, if the task waits for that. The lock is held.
func (e *Engine) enqueue(t *task) {
	if t.cold != nil && t.cold.wanted != nil {
		e.loadCold(t)
		return
	}
	if len(t.needed) > 0 {
		e.loadBodies(t)
		return
	}
	if t.tallies != nil && len(t.tallies.missing) > 0 {
		e.loadTallies(t)
		return
	}
	if t.needsRoom {
		if len(e.noRoom) == 0 {
			e.roomAt = e.now()
		}
		e.noRoom = append(e.noRoom, t)
		return
	}
	e.tasks = append(e.tasks, t)
	if !e.working {
		e.working = true
		go e.work()
	}
}

// maxWait is how long tasks wait for room while none becomes available.
const maxWait = tube.Instant(10 * time.Second)

// roomMade is called by the journal when it may have room again. The lock is held.
func (e *Engine) roomMade() {
	if len(e.noRoom) == 0 {
		return
	}
	e.roomAt = e.now()
	if !e.journal.overLimit() {
		e.admitTasks(false)
	}
}

// admitTasks gives the tasks that wait for room to the worker. With force they do not wait
// again. The lock is held.
func (e *Engine) admitTasks(force bool) {
	tasks := e.noRoom
	e.noRoom = nil
	for _, t := range tasks {
		t.needsRoom, t.forced = false, force
		e.enqueue(t)
	}
}

// work is the worker: it does a part of each task in turn, until there are none. At most one
// goroutine runs it.
func (e *Engine) work() {
	y, release := ownThread()
	defer release()
	for e.workPart() {
		runtime.Gosched()
		y.work()
	}
}

// workPart does a part of the first task. It returns false if there is none; then the worker
// has ended.
func (e *Engine) workPart() (more bool) {
	e.mu.Lock()
	if e.journal != nil {
		e.journal.awaitTaskTurn()
	}
	if len(e.tasks) == 0 {
		e.working = false
		e.mu.Unlock()
		return false
	}
	t := e.tasks[0]
	e.tasks = slices.Delete(e.tasks, 0, 1)
	batches := []*storage.Batch{t.batch}
	h := e.beginHold()
	e.budget, e.fullBudget = e.taskSize.size, e.taskSize.size
	if rest := e.runBatch(h.now, t.batch, t.next, t.progress); rest != nil {
		e.unfinished = append(e.unfinished, rest)
	}
	e.endHold(&h, batches)
	if h.commit != nil {
		e.journal.handOver()
	}
	e.taskSize.adjust(e.now().Until(h.now))
	e.mu.Unlock()
	e.afterHold(&h)
	e.tasksEnded(1)
	return true
}

// tasksEnded records that n tasks are done, or have become other tasks.
func (e *Engine) tasksEnded(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pending -= n; e.pending == 0 && e.closed {
		e.idle.Broadcast()
	}
}
