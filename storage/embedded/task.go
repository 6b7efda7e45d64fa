package embedded

import (
	"runtime"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// partWork is how many jobs a kick or a leaving moves under one hold of the
// lock, of however many batches: about half a millisecond's worth. What every
// operation has to do anyway, as to move one job, does not count.
const partWork = 512

// looksPerMove is how many tubes a take looks at in the time in which a job is
// moved.
const looksPerMove = 8

// task is a batch that is carried out in parts, because it is more work than may
// be done under one hold of the lock, or because it has to wait.
type task struct {
	batch  *storage.Batch
	next   int           // the first of its operations that is not done
	absent []*storage.Op // those whose answers lack their bodies
	progress
}

// progress is how far an operation is that is not done in one go.
type progress struct {
	begun   bool
	crowded bool       // it waits until the journal has room
	forced  bool       // it has waited long enough
	done    int        // jobs kicked, or tubes attended
	most    int        // jobs to kick
	from    tube.State // of these
}

func (t *task) ended() bool { return t.next == len(t.batch.Ops) }

// run carries out the operations of a batch from the next one on, whose
// progress is p. If that is too much for one hold of the lock it returns what is
// left as a task. The lock is held.
func (e *Engine) run(now tube.Instant, b *storage.Batch, next int, p progress) (rest *task) {
	for ; next < len(b.Ops); next++ {
		op := &b.Ops[next]
		if !p.begun {
			op.Answer = storage.Answer{}
		}
		if e.closed && !p.begun && next == 0 {
			refuse(b)
			break
		}
		if !e.apply(now, b, op, &p) {
			rest = &task{batch: b, next: next, progress: p}
			break
		}
		p = progress{}
	}
	if e.journal != nil {
		e.journal.endFrame()
	}
	return rest
}

// refuse answers a batch that comes after Close. One that was begun before is
// ended.
func refuse(b *storage.Batch) {
	for i := range b.Ops {
		b.Ops[i].Answer = storage.Answer{Err: storage.ErrClosed}
	}
}

// put carries out a Put. It returns false if it has to wait.
func (e *Engine) put(now tube.Instant, op *storage.Op, p *progress) bool {
	if e.journal != nil {
		if p.crowded = !p.forced && e.journal.crowded(); p.crowded {
			return false
		}
		if !e.journal.guard.room(len(op.Body)) {
			op.Answer.Err = storage.ErrNoSpace
			return true
		}
	}
	j := e.machine.Put(now, tube.NewJob{Tube: op.Tube, Pri: op.Pri, Delay: op.Delay, TTR: op.TTR, Body: op.Body})
	op.Answer.ID = j.ID
	e.quiet.worked += uint64(len(op.Body) / bytesPerWork)
	return true
}

// spend uses up work of this hold of the lock.
func (e *Engine) spend(work int) { e.left -= work }

// mayBegin tells whether work may be done that is not bounded by itself.
func (e *Engine) mayBegin() bool { return e.left > 0 }

// take carries out a Take. It returns false if it has to be tried again.
func (e *Engine) take(now tube.Instant, b *storage.Batch, op *storage.Op) bool {
	many := len(op.Tubes) > tube.FewTubes
	if many && !e.mayBegin() {
		return false
	}
	looks, lookups := e.machine.TakeWork()
	job, soon := e.machine.Take(now, op.Holder, op.Tubes)
	if e.answerJob(b, op, job); job == nil {
		op.Answer.Soon = soon.Until(now)
	}
	if many {
		e.spendLooks(looks, lookups)
	}
	return true
}

// spendLooks uses up the work of a take from many tubes, before which the machine
// had counted so much. The first list of names under a hold of the lock is for
// nothing: else every take of a long one would have it looked up anew.
func (e *Engine) spendLooks(looks, lookups uint64) {
	l, u := e.machine.TakeWork()
	e.spend(int(l-looks) / looksPerMove)
	if e.listed {
		e.spend(int(u-lookups) / looksPerMove)
	}
	e.listed = e.listed || u > lookups
}

// kick carries out a Kick, or a part of it.
func (e *Engine) kick(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if !p.begun {
		from, jobs := e.machine.Kickable(op.Tube)
		p.begun, p.from, p.most = true, from, min(int(op.Bound), jobs)
	}
	part := min(p.most-p.done, e.left+1)
	n := e.machine.KickSome(now, op.Tube, p.from, max(part, 0))
	e.spend(max(n-1, 0))
	p.done += n
	op.Answer.Count = p.done
	return p.done == p.most || n < part
}

// leave carries out a Leave, or a part of it.
func (e *Engine) leave(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	p.begun = true
	n, left := e.machine.LeaveSome(now, op.Holder, max(e.left+1, 0))
	e.spend(max(n-1, 0))
	return !left
}

// attend carries out an Attend, or a part of it.
func (e *Engine) attend(op *storage.Op, p *progress) (done bool) {
	p.begun = true
	names := op.Tubes[p.done:]
	names = names[:min(len(names), max(e.left+1, 0))]
	for _, name := range names {
		e.machine.Attend(name, op.Role, op.Delta)
	}
	e.spend(max(len(names)-1, 0))
	p.done += len(names)
	return p.done == len(op.Tubes)
}

// aside has those of the batches that are not done ended later: which have to
// be gone on with (unfinished) or lack a body (absent). It returns the others,
// and whether one of the former has changed what must be on the disk. The lock
// is held.
func (e *Engine) aside(batches []*storage.Batch) (ready []*storage.Batch, needs bool) {
	if len(e.absent) == 0 && len(e.unfinished) == 0 {
		return batches, false
	}
	absent, unfinished := e.absent, e.unfinished
	e.absent, e.unfinished = nil, nil
	var lacking []*task
	for _, b := range batches { // both lists are in the order of batches
		t := &task{batch: b, next: len(b.Ops)}
		if len(unfinished) > 0 && unfinished[0].batch == b {
			t, unfinished = unfinished[0], unfinished[1:]
		}
		lacks := false
		for len(absent) > 0 && absent[0].batch == b {
			t.absent, absent, lacks = append(t.absent, absent[0].op), absent[1:], true
		}
		if !lacks && t.ended() {
			ready = append(ready, b)
			continue
		}
		e.pending++
		needs = needs || !t.ended() || !e.onlyReserves(b)
		if lacks {
			lacking = append(lacking, t)
		} else {
			e.enqueue(t)
		}
	}
	if len(lacking) > 0 {
		e.fetchAside(lacking)
	}
	return ready, needs
}

// enqueue has a task gone on with by the worker, or when the journal has room.
// The lock is held.
func (e *Engine) enqueue(t *task) {
	if t.crowded {
		if len(e.crowd) == 0 {
			e.roomAt = e.now()
		}
		e.crowd = append(e.crowd, t)
		return
	}
	e.tasks = append(e.tasks, t)
	if !e.working {
		e.working = true
		go e.work()
	}
}

// maxWait is how long a batch waits for room while none is made.
const maxWait = tube.Instant(10 * time.Second)

// roomMade has those go on that wait for room in the journal, if there is some.
// The lock is held.
func (e *Engine) roomMade() {
	if len(e.crowd) == 0 {
		return
	}
	e.roomAt = e.now()
	if !e.journal.crowded() {
		e.admit(false)
	}
}

// admit has those go on that wait for room. The lock is held.
func (e *Engine) admit(force bool) {
	crowd := e.crowd
	e.crowd = nil
	for _, t := range crowd {
		t.crowded, t.forced = false, force
		e.enqueue(t)
	}
}

// work carries out tasks, a part of each in turn, until there are none. One
// goroutine does that, however many tasks there are.
func (e *Engine) work() {
	for e.workPart() {
		runtime.Gosched()
	}
}

func (e *Engine) workPart() (more bool) {
	e.mu.Lock()
	if e.journal != nil {
		e.journal.throttle()
		e.journal.pace()
	}
	if len(e.tasks) == 0 {
		e.working = false
		e.mu.Unlock()
		return false
	}
	t := e.tasks[0]
	e.tasks = slices.Delete(e.tasks, 0, 1)
	batches := []*storage.Batch{t.batch}
	h := e.begin()
	if rest := e.run(h.now, t.batch, t.next, t.progress); rest != nil {
		e.unfinished = append(e.unfinished, rest)
	}
	e.end(&h, batches)
	if h.lead != nil {
		e.journal.hand()
	}
	e.mu.Unlock()
	e.follow(&h)
	e.leaveTask(1)
	return true
}

// leaveTask notes that so many tasks are done, or have become others.
func (e *Engine) leaveTask(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pending -= n; e.pending == 0 && e.closed {
		e.idle.Broadcast()
	}
}
