package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// putTagged carries out a Put with tags. The disk has room for it.
func (e *Engine) putTagged(now tube.Instant, op *storage.Op) {
	put := e.machine.PutTagged(now, newJob(op), op.Args.Tags)
	if put.Result != tube.PutNew {
		op.Buffer.Release()
	}
	if put.Result == tube.PutRefused {
		op.Answer.Err = storage.ErrNoSpace
		return
	}
	op.Answer.ID = put.ID
	op.Answer.Result = &storage.Result{Outcome: put.Result, State: put.State}
}

// answerLease answers with the lease of the job of a Take, which may be nil.
func (e *Engine) answerLease(op *storage.Op, job *tube.Job) {
	if op.Holder == tube.LeaseHolder && job != nil {
		op.Answer.Result = &storage.Result{Lease: e.machine.Lease(job)}
	}
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
