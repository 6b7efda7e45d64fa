package storetest

import (
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// The records of ended jobs, in the model. It has no bounds, and says nothing of times.

// modelEnded is a job that has ended, as it was then, and how.
type modelEnded struct {
	job    modelJob
	tube   string
	how    tube.How
	toTube string
	result string
	until  time.Duration
}

// keeps returns for how long the record of a job will be kept.
func (m *Model) keeps(j *modelJob) time.Duration { return m.rules(j).Keep.Duration() }

// end notes the end of a job. It is called before the job is removed.
func (m *Model) end(j *modelJob, how tube.How, toTube, result string) {
	if keep := m.keeps(j); keep > 0 {
		m.ended = append(m.ended, &modelEnded{*j, j.tube.name, how, toTube, result, m.now + keep})
	}
}

// record returns what a record says.
func (e *modelEnded) record() *tube.Ended {
	j := &e.job
	r := &tube.Ended{
		ID: j.id, Tube: e.tube, Key: j.metadata.Key, Group: j.metadata.Group, How: e.how, Occurrence: j.metadata.Occurrence,
		Deliveries: j.metadata.Deliveries(&j.counters), Failures: j.metadata.Failures(&j.counters), ToTube: e.toTube,
	}
	if n := j.metadata.Notes; n != nil {
		r.Meta, r.Reason = n.Meta, n.Reason
	}
	if e.result != "" {
		r.Result = []byte(e.result)
	}
	return r
}

// aboutEnds carries out a WaitEnded or a ListEnded.
func (m *Model) aboutEnds(op *storage.Op) {
	a := &op.Answer
	if op.Kind == storage.ListEnded {
		a.Result = new(storage.Result)
		for _, e := range m.ended {
			if e.tube == op.Tube && e.until > m.now {
				a.Result.Ended = append(a.Result.Ended, e.record())
			}
		}
		return
	}
	j := m.job(op.ID)
	switch {
	case j != nil && m.keeps(j) == 0:
		a.Result = &storage.Result{NotKept: true}
	case j != nil && j.state == tube.Buried:
		a.Result = &storage.Result{Ended: []*tube.Ended{{ID: j.id, Tube: j.tube.name, How: tube.StillParked, Reason: j.whyParked()}}}
	case j != nil:
		a.State = j.state
	default:
		i := slices.IndexFunc(m.ended, func(e *modelEnded) bool { return e.job.id == op.ID && e.until > m.now })
		if a.NotFound = i < 0; i >= 0 {
			a.Result = &storage.Result{Ended: []*tube.Ended{m.ended[i].record()}}
		}
	}
}

// whyParked is what a wait for a buried job is answered.
func (j *modelJob) whyParked() string {
	if n := j.metadata.Notes; n != nil && n.Reason != "" {
		return n.Reason
	}
	return j.metadata.Parked.String()
}

// finish carries out a Finish of a job that the operation's holder holds.
func (m *Model) finish(j *modelJob, op *storage.Op) {
	if m.keeps(j) == 0 {
		op.Answer.Result = &storage.Result{NotKept: true}
		return
	}
	m.done(j, tube.Done, resultOf(op))
}

func resultOf(op *storage.Op) string {
	if op.Args == nil {
		return ""
	}
	return string(op.Args.Data)
}
