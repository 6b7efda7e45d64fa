package embedded

import (
	"redstalk/storage"
	"redstalk/storage/body"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

const (
	// partWork is how much work is done under one hold of the lock, for all batches together.
	// The unit is moving one job in a kick or in a ReleaseAll; 512 take about half a
	// millisecond. Work that every operation has, such as moving one job, does not count. A
	// part of a task is smaller if it would take longer, see partSize.
	partWork = 512

	// tubesPerMove is how many tubes a take examines in the time in which one job is moved, and
	// namesPerMove how many names of tubes are listed in it.
	tubesPerMove = 8
	namesPerMove = 32
)

// spend subtracts work from the budget of this hold of the lock.
func (e *Engine) spend(work int) { e.budget -= work }

// mayBegin reports whether work of unknown size may be begun.
func (e *Engine) mayBegin() bool { return e.budget > 0 }

// apply carries out one operation on the machine, of which p is done already. It returns false
// if the rest has to be done later. The lock is held.
func (e *Engine) apply(now tube.Instant, b *storage.Batch, op *storage.Op, p *progress) (done bool) {
	switch op.Kind {
	case storage.Put, storage.PutScheduled:
		return e.put(now, op, p)
	case storage.Take:
		return e.take(now, b, op)
	case storage.Kick:
		return e.kick(now, op, p)
	case storage.Ref:
		return e.ref(op, p)
	case storage.ReleaseAll:
		return e.releaseAll(now, op, p)
	case storage.Tubes:
		return e.listTubes(op)
	case storage.ListJobs:
		return e.listJobs(now, op, p)
	case storage.Flush:
		return e.flush(now, op, p)
	case storage.MoveJobs:
		return e.moveJobs(now, op, p)
	case storage.MoveJob, storage.Replay:
		return e.moveOne(now, op, p)
	case storage.ImportJobs:
		return e.importJobs(now, op, p)
	case storage.BeginImport:
		e.beginImport(op)
	case storage.Move:
		return e.move(now, b, op, p)
	case storage.WaitEnded:
		e.waitEnded(now, b, op)
	case storage.ListEnded:
		return e.listEnded(now, b, op, p)
	case storage.DeleteKey, storage.FindKey, storage.SetPolicy, storage.GetPolicy, storage.Policies:
		e.applyKeyOrPolicy(now, op)
	case storage.SetGroup, storage.GetGroup, storage.GroupStats, storage.PauseGroup:
		e.applyGroup(now, op)
	case storage.ListGroups:
		return e.listGroups(now, op, p)
	case storage.GetRecord, storage.ListRecords, storage.DueRecords, storage.SetSchedule, storage.DeleteSchedule,
		storage.SealBatch, storage.ListMembers, storage.CancelBatch, storage.SettleBatch:
		return e.applyToRecords(now, op, p)
	case storage.AddTallies:
		return e.addTallies(now, op)
	case storage.ReadTallies:
		return e.readTallies(now, op, p)
	case storage.Peek, storage.PeekKey, storage.PeekHead, storage.GetCheckpoint:
		e.peek(b, op)
	case storage.JobStats, storage.TubeStats, storage.Stats, storage.ListHung:
		e.readStats(now, op, p)
	default:
		if change := op.Kind.Spec().Change; change != nil {
			op.Answer.NotFound = !change(e.machine, now, op)
		}
	}
	return true
}

// peek carries out an operation that reads a job, or its checkpoint.
func (e *Engine) peek(b *storage.Batch, op *storage.Op) {
	switch op.Kind {
	case storage.Peek:
		e.answerJob(b, op, e.machine.Find(op.ID))
	case storage.PeekKey:
		e.answerJob(b, op, e.machine.ByKey(op.Tube, op.Args.Key))
	case storage.PeekHead:
		e.answerJob(b, op, e.machine.Head(op.Tube, op.State))
	default:
		e.getCheckpoint(b, op)
	}
}

// move carries out a Move. It returns false if it has to wait for the body of the job: a job whose
// body cannot be read is not reserved.
func (e *Engine) move(now tube.Instant, b *storage.Batch, op *storage.Op, p *progress) (done bool) {
	if op.Move.Brings() {
		if done := e.loadBrought(now, op, p); done || len(p.needed) > 0 {
			return done
		}
	}
	var job *tube.Job
	terms, lease := tube.Terms{Pri: op.Pri, Delay: op.Delay}, uint64(0)
	if op.Args != nil {
		terms.Reason, terms.Holder, terms.Data, lease = op.Args.Reason, op.Args.By, op.Args.Data, op.Args.Lease
		terms.Progress, terms.KeepCheckpoint = op.Args.Progress, op.Args.KeepCheckpoint
	}
	if op.Move == tube.SaveCheckpoint && len(terms.Data) > 0 && !e.hasRoom(op, p, len(terms.Data)) {
		return !p.needsRoom
	}
	if op.Move == tube.Finish && e.machine.HoldsWithoutKeep(op.Holder, lease, op.ID) {
		op.Answer.Result = &storage.Result{NotKept: true}
		return true
	}
	if op.Holder == tube.LeaseHolder && op.Move != tube.Expire {
		job = e.machine.MoveLeased(now, op.Move, lease, op.ID, terms)
	} else {
		job = e.machine.Move(now, op.Move, op.Holder, op.ID, terms)
	}
	op.Answer.NotFound = job == nil
	if op.Move.Brings() {
		e.answerJob(b, op, job)
		e.answerTraced(now, op, job)
	}
	return true
}

// loadBrought asks for the body of the job that a Move reserves, if it is on disk only. It returns true
// if that cannot be read; then the answer is complete, and the job stays where it is unless it is damaged.
func (e *Engine) loadBrought(now tube.Instant, op *storage.Op, p *progress) (failed bool) {
	j := e.machine.Find(op.ID)
	if j == nil || j.State() == tube.Reserved {
		return false
	}
	if e.lacksBody(p, j) {
		p.begun, p.needed = true, append(p.needed, j.ID)
		return false
	}
	err := p.unreadable[j.ID]
	if err == nil {
		return false
	}
	if op.Answer = unreadable(err); tables.IsDamage(err) {
		e.bury(now, op.Holder, j.ID, err)
	}
	return true
}

// put carries out a Put or a PutScheduled. It returns false if it has to wait for room.
func (e *Engine) put(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if !e.hasRoom(op, p, len(op.Body)+scheduleSize(op)) {
		if p.needsRoom {
			return false
		}
		op.Buffer.Release()
		return true
	}
	switch {
	case op.Kind == storage.PutScheduled:
		e.putScheduled(now, op)
	case op.Args != nil:
		e.putTagged(now, op)
	case !e.machine.Admits(op.Tube, len(op.Body)):
		op.Answer.Err = storage.ErrQuota
		op.Buffer.Release()
	default:
		op.Answer.ID = e.machine.Put(now, newJob(op)).ID
	}
	return true
}

// newJob returns the job of a Put. The reference to Op.Buffer becomes the machine's.
func newJob(op *storage.Op) tube.NewJob {
	j := tube.NewJob{Tube: op.Tube, Pri: op.Pri, Delay: op.Delay, TTR: op.TTR, Body: op.Body}
	if op.Buffer != nil { // a nil pointer in an interface is not nil
		j.Buffer = op.Buffer
	}
	return j
}

// take carries out a Take. It returns false if it has to be tried again later.
func (e *Engine) take(now tube.Instant, b *storage.Batch, op *storage.Op) (done bool) {
	many := len(op.Tubes) > tube.FewTubes
	if many && !e.mayBegin() {
		return false
	}
	tubes, names := e.machine.TakeWork()
	job, soon := e.takeJob(now, op)
	if e.answerJob(b, op, job); job == nil {
		op.Answer.Soon = soon.Until(now)
	}
	e.answerLease(op, job)
	e.answerTraced(now, op, job)
	if op.Info && job != nil {
		s, _ := e.machine.JobStats(now, job.ID)
		op.Answer.Job = &s
	}
	if many {
		e.spendTake(tubes, names)
	}
	return true
}

// takeJob takes the job that a Take asks for.
func (e *Engine) takeJob(now tube.Instant, op *storage.Op) (*tube.Job, tube.Instant) {
	if op.First {
		return e.machine.TakeFirst(now, op.Holder, op.Tubes, int(op.MaxBytes))
	}
	if op.MaxBytes > 0 {
		return e.machine.TakeWithin(now, op.Holder, op.Tubes, int(op.MaxBytes))
	}
	return e.machine.Take(now, op.Holder, op.Tubes)
}

// spendTake subtracts the work of a take of many tubes from the budget. tubes and names are
// what the machine had counted before it. The first list of names under a hold of the lock is
// free: otherwise every take from a long list would be postponed, and its list would be looked
// up again.
func (e *Engine) spendTake(tubes, names uint64) {
	tubesNow, namesNow := e.machine.TakeWork()
	e.spend(int(tubesNow-tubes) / tubesPerMove)
	if e.namesLookedUp {
		e.spend(int(namesNow-names) / tubesPerMove)
	}
	e.namesLookedUp = e.namesLookedUp || namesNow > names
}

// kick carries out a Kick, or a part of it.
func (e *Engine) kick(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if !p.begun {
		from, jobs := e.machine.Kickable(op.Tube)
		p.begun, p.from, p.limit = true, from, min(int(op.MaxJobs), jobs)
	}
	part := min(p.limit-p.done, e.budget+1)
	n := e.machine.KickSome(now, op.Tube, p.from, max(part, 0), op.Args != nil && op.Args.KeepCheckpoint)
	e.spend(max(n-1, 0))
	p.done += n
	op.Answer.Count = p.done
	return p.done == p.limit || n < part && !(p.from == tube.Delayed && e.someCold(tube.ColdQueue{Tube: op.Tube, State: tube.Delayed}, 1, p))
}

// releaseAll carries out a ReleaseAll, or a part of it.
func (e *Engine) releaseAll(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	p.begun = true
	n, more := e.machine.ReleaseSome(now, op.Holder, max(e.budget+1, 0))
	e.spend(max(n-1, 0))
	return !more
}

// ref carries out a Ref, or a part of it.
func (e *Engine) ref(op *storage.Op, p *progress) (done bool) {
	p.begun = true
	names := op.Tubes[p.done:]
	names = names[:min(len(names), max(e.budget+1, 0))]
	for _, name := range names {
		e.machine.Ref(name, op.Role, op.Delta)
	}
	e.spend(max(len(names)-1, 0))
	p.done += len(names)
	return p.done == len(op.Tubes)
}

// listTubes carries out a Tubes. It returns false if it has to be tried again later.
func (e *Engine) listTubes(op *storage.Op) (done bool) {
	if !e.mayBegin() {
		return false
	}
	op.Answer.Names = e.machine.Tubes()
	e.spend(len(op.Answer.Names) / namesPerMove)
	return true
}

// readStats carries out an operation that changes nothing and returns no body. The lock is
// held.
func (e *Engine) readStats(now tube.Instant, op *storage.Op, p *progress) {
	m, a := e.machine, &op.Answer
	switch op.Kind {
	case storage.ListHung:
		a.Result = &storage.Result{Jobs: m.Hung(now, op.Args.Skip, int(min(op.MaxJobs, tube.MaxListed)))}
	case storage.JobStats:
		s, found := m.JobStats(now, op.ID)
		if a.NotFound = !found; found {
			s.File, s.Holder = e.journal.file(), m.HolderOf(op.ID)
			a.Job = &s
		}
	case storage.TubeStats:
		s, found := m.TubeStats(now, op.Tube)
		if a.NotFound = !found; found {
			e.readOldest(now, p, &s)
			if op.Info {
				s.Limits = m.LimitStats(op.Tube)
			}
			a.TubeStats = &s
		}
	case storage.Stats:
		a.Stats = &storage.Figures{
			Totals: m.Totals(), Log: e.journal.figures(),
			Ended: e.ends.records + uint64(e.ends.recent.Len()), EndedBytes: e.ends.bytes + e.ends.recent.Bytes(),
			OnDisk: uint64(e.machine.ColdJobs()), HeldKeys: uint64(e.machine.HeldKeys()), Checkpoints: e.machine.Checkpoints(), Hung: uint64(e.machine.HungJobs()),
		}
	}
}

// answerJob answers with the id and the body of j; nil is NOT_FOUND. If the body is not in
// memory, it adds the answer to bodiesMissing.
func (e *Engine) answerJob(b *storage.Batch, op *storage.Op, j *tube.Job) {
	a := &op.Answer
	if j == nil {
		a.NotFound = true
		return
	}
	a.ID = j.ID
	e.answerBody(a, j)
	if a.Body == nil && j.Size() > 0 {
		e.bodiesMissing = append(e.bodiesMissing, bodyNeeded{b, op})
	}
}

// answerBody answers with the body of j, if it is in memory. The body can later be read without
// the lock, because the answer retains its Buffer. The lock is held.
func (e *Engine) answerBody(a *storage.Answer, j *tube.Job) {
	a.Body = e.machine.Body(j)
	if buffer, has := e.machine.Buffer(j).(*body.Buffer); has {
		buffer.Retain()
		a.Buffer = buffer
	}
}

// putTagged carries out a Put with tags. The disk has room for it.
func (e *Engine) putTagged(now tube.Instant, op *storage.Op) {
	put := e.machine.PutTagged(now, newJob(op), op.Args.Tags)
	if put.Result != tube.PutNew {
		op.Buffer.Release()
	}
	if put.Result == tube.PutRefused {
		op.Answer.Err = storage.ErrQuota
		return
	}
	op.Answer.ID, op.Answer.Outcome, op.Answer.State = put.ID, put.Result, put.State
}

// answerLease answers with the lease of the job of a Take, which may be nil.
func (e *Engine) answerLease(op *storage.Op, job *tube.Job) {
	if op.Holder == tube.LeaseHolder && job != nil {
		op.Answer.Result = &storage.Result{Lease: e.machine.Lease(job)}
	}
}

// answerTraced adds the stats of a job with a trace to the answer, if they are wanted.
func (e *Engine) answerTraced(now tube.Instant, op *storage.Op, job *tube.Job) {
	if !op.Trace || job == nil || e.machine.TraceOf(job) == "" {
		return
	}
	if op.Answer.Result == nil {
		op.Answer.Result = &storage.Result{}
	}
	s, _ := e.machine.JobStats(now, job.ID)
	op.Answer.Result.Traced = &s
}

// applyKeyOrPolicy carries out operations on keys and policies.
func (e *Engine) applyKeyOrPolicy(now tube.Instant, op *storage.Op) {
	m, a := e.machine, &op.Answer
	switch op.Kind {
	case storage.DeleteKey:
		job := m.ByKey(op.Tube, op.Args.Key)
		if a.NotFound = job == nil; job != nil {
			m.Remove(now, job)
		}
	case storage.FindKey:
		a.Result = &storage.Result{}
		for _, job := range m.FindKey(op.Args.Key) {
			s, _ := m.JobStats(now, job.ID)
			a.Result.Jobs = append(a.Result.Jobs, s)
		}
		a.NotFound = len(a.Result.Jobs) == 0
	case storage.SetPolicy:
		m.SetPolicy(op.Tube, op.Args.Policy)
	case storage.GetPolicy:
		p := m.Policy(op.Tube)
		a.NotFound, a.Result = p == nil, &storage.Result{Policy: p}
	case storage.Policies:
		a.Names = m.Policies()
	}
}
