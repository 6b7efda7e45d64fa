package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// Operations on many jobs of a tube, in parts. A part is begun only with the whole budget of a
// hold of the lock: smaller parts would be much more work in total.

// workPerCopy is the work of moving a job to another tube.
const workPerCopy = 4

// mayBeginMany reports whether a part of such an operation may be begun.
func (e *Engine) mayBeginMany() bool { return e.budget >= e.fullBudget }

// listJobs carries out a ListJobs, or a part of it.
func (e *Engine) listJobs(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if !e.mayBeginMany() {
		return false
	}
	if !p.begun {
		p.begun, p.list = true, tube.NewListing(op.Tube, op.State, cursorOf(op), int(op.MaxJobs))
	}
	jobs, next, work, done := e.machine.ListSome(now, p.list, e.budget)
	e.spend(work)
	for i := range jobs {
		jobs[i].File = e.journal.file()
	}
	if done {
		op.Answer.Result = &storage.Result{Jobs: jobs, Cursor: next}
	}
	return done
}

func cursorOf(op *storage.Op) string {
	if op.Args == nil {
		return ""
	}
	return op.Args.Cursor
}

// flush carries out a Flush, or a part of it.
func (e *Engine) flush(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if !e.mayBeginMany() {
		return false
	}
	if !p.begun {
		p.begun, p.flush = true, e.newFlush(op)
	}
	if done = e.flushCold(now, op, p); done {
		var work int
		work, done = e.machine.FlushSome(now, p.flush, max(e.budget, 1))
		e.spend(work)
	}
	op.Answer.Count = p.flush.Removed()
	return done
}

func (e *Engine) newFlush(op *storage.Op) *tube.Flush {
	if op.Args != nil && op.Args.Group != "" {
		return e.machine.NewGroupFlush(op.Tube, op.Args.Group)
	}
	return e.machine.NewFlush(op.Tube, op.State)
}

// moveJobs carries out a MoveJobs, or a part of it.
func (e *Engine) moveJobs(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if op.Args.To == op.Tube {
		return true
	}
	if !p.begun {
		p.begun, p.limit = true, min(int(op.MaxJobs), e.machine.CountIn(op.Tube, op.State))
	}
	if e.journal != nil {
		if p.needsRoom = !p.forced && e.journal.overLimit(); p.needsRoom {
			return false
		}
	}
	jobs := e.toMove(op, p)
	if len(p.needed) > 0 {
		return false
	}
	for _, job := range jobs {
		if !e.hasRoomFor(job) {
			op.Answer = storage.Answer{Err: storage.ErrNoSpace, Count: p.done}
			return true
		}
		e.machine.MoveTo(now, job, op.Args.To)
		p.done++
	}
	e.spend(workPerCopy * max(len(jobs)-1, 0))
	p.forced = false
	op.Answer.Count = p.done
	if done = p.done == p.limit || len(jobs) == 0 && e.mayBegin(); done && p.done == 0 {
		for _, err := range p.unreadable {
			op.Answer = unreadable(err)
		}
	}
	return done
}

// moveOne carries out a MoveJob or a Replay. It returns false if it has to wait for room, or for the body of the job.
func (e *Engine) moveOne(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	p.begun = true
	j, keep := e.machine.Find(op.ID), op.Args != nil && op.Args.KeepCheckpoint
	switch {
	case j == nil, op.Kind == storage.MoveJob && e.machine.TubeOf(j) == op.Args.To:
		op.Answer.NotFound = true
		return true
	case op.Kind == storage.MoveJob:
		return e.moveAlone(op, p, j, func() { e.machine.MoveTo(now, j, op.Args.To) })
	case e.machine.Home(j) != "":
		return e.moveAlone(op, p, j, func() { e.machine.SendBack(now, j, keep) })
	}
	op.Answer.NotFound = j.State() != tube.Buried || e.machine.Move(now, tube.KickJob, 0, op.ID, tube.Terms{KeepCheckpoint: keep}) == nil
	return true
}

// moveAlone moves a job to another tube, unless it is reserved. It returns false as moveOne does.
func (e *Engine) moveAlone(op *storage.Op, p *progress, j *tube.Job, move func()) (done bool) {
	if op.Answer.NotFound = j.State() == tube.Reserved; op.Answer.NotFound {
		return true
	}
	if e.journal != nil {
		if p.needsRoom = !p.forced && e.journal.overLimit(); p.needsRoom {
			return false
		}
	}
	if e.lacksBody(p, j) {
		p.needed = append(p.needed, j.ID)
		return false
	}
	switch err := p.unreadable[j.ID]; {
	case err != nil:
		op.Answer = unreadable(err)
	case !e.hasRoomFor(j):
		op.Answer.Err = storage.ErrNoSpace
	default:
		move()
	}
	return true
}

// hasRoomFor reports whether the disk has room for a copy of a job.
func (e *Engine) hasRoomFor(j *tube.Job) bool {
	return e.journal == nil || e.journal.guard.reserveRoom(j.Size())
}

// toMove returns the jobs that the next part of a MoveJobs moves. It stops at a job that lacks
// its body; if that is the first job, it asks for the bodies of that job and the next ones.
// Jobs whose bodies cannot be read stay where they are.
func (e *Engine) toMove(op *storage.Op, p *progress) (jobs []*tube.Job) {
	limit, bytes := min(p.limit-p.done, max(e.budget/workPerCopy+1, 0)), 0
	for _, job := range e.machine.FirstJobs(op.Tube, op.State, limit+len(p.unreadable)) {
		lacks := e.lacksBody(p, job)
		bytes += job.Size()
		switch {
		case p.unreadable[job.ID] != nil:
			continue
		case len(jobs)+len(p.needed) > 0 && bytes > maxNeededBytes, len(p.needed) == maxNeeded, lacks && len(jobs) > 0:
			return jobs
		case lacks:
			p.needed = append(p.needed, job.ID)
		case len(p.needed) == 0:
			jobs = append(jobs, job)
		}
	}
	return jobs[:min(len(jobs), limit)]
}
