package storetest

import (
	"slices"

	"redstalk/storage"
	"redstalk/tube"
)

// Operations on many jobs of a tube, in the model.

func (m *Model) many(op *storage.Op, in func(*modelJob) bool) {
	switch op.Kind {
	case storage.Flush:
		for _, j := range slices.Clone(m.jobs) {
			named := op.Args == nil || op.Args.Group == "" || op.Args.Group == j.metadata.Group
			if in(j) && named && (j.state == op.State || op.State == tube.Gone && j.state != tube.Reserved) {
				m.remove(j)
				op.Answer.Count++
			}
		}
	case storage.MoveJobs:
		if op.Args.To == op.Tube || op.State == tube.Reserved || op.State == tube.Gone {
			return
		}
		jobs := m.sorted(op.State, in)
		for _, j := range jobs[:min(int(op.MaxJobs), len(jobs))] {
			m.moveTo(j, op.Args.To)
			op.Answer.Count++
		}
	case storage.ListJobs:
		m.list(op, in)
	}
}

// moveOne carries out a MoveJob.
func (m *Model) moveOne(op *storage.Op) {
	j := m.job(op.ID)
	if op.Answer.NotFound = j == nil || j.state == tube.Reserved || j.tube.name == op.Args.To; op.Answer.NotFound {
		return
	}
	m.moveTo(j, op.Args.To).movedAlone = true
	if m.learns {
		m.left = append(m.left, j.id)
	}
}

// moveTo creates a copy of j in another tube, which it returns, and removes j.
func (m *Model) moveTo(j *modelJob, to string) (moved *modelJob) {
	moved = m.put(&storage.Op{Tube: to, Pri: j.pri, TTR: j.ttr, Body: []byte(j.body)})
	moved.delay, moved.due, moved.order = j.delay, j.due, j.order
	if moved.state = j.state; j.state == tube.Buried {
		m.bury(moved)
	}
	moved.checkpoint = j.checkpoint
	moved.metadata, moved.leases, moved.expires, moved.expiresOrder = j.metadata, j.leases, j.expires, j.expiresOrder
	moved.held, moved.waitsSince, j.metadata.Batch = j.held, j.waitsSince, ""
	if j.metadata.FromTube == j.tube.name {
		moved.metadata.FromTube, moved.metadata.FromID = "", 0
	}
	moved.metadata.FailuresBefore -= j.counters[tube.Releases] + j.counters[tube.Timeouts]
	moved.metadata.DeliveriesBefore -= j.counters[tube.Reserves]
	if j.isDeadLetter() && j.metadata.FromTube == to {
		moved.metadata.FailuresBefore, moved.metadata.DeliveriesBefore = 0, 0
	}
	if m.keyed(to, j.metadata.Key) != moved {
		moved.metadata.Key = ""
	} else {
		delete(m.tombstones, modelKey{to, j.metadata.Key})
	}
	m.end(j, tube.Moved, to, "")
	m.takeOff(j)
	return moved
}

// list answers with a page of jobs. A cursor means: behind the page that was listed last.
func (m *Model) list(op *storage.Op, in func(*modelJob) bool) {
	a := &storage.Result{}
	op.Answer.Result = a
	jobs := m.sorted(op.State, in)
	if op.Args != nil && op.Args.Cursor != "" {
		jobs = slices.DeleteFunc(jobs, func(j *modelJob) bool { return !m.listed.before(j.position()) })
	}
	for i, j := range jobs {
		if i == int(op.MaxJobs) {
			a.Cursor = "more"
			break
		}
		stats := *m.jobStats(j)
		stats.Size = len(j.body)
		a.Jobs = append(a.Jobs, stats)
		m.listed = j.position()
	}
}
