package storetest

import (
	"slices"
	"time"

	"redstalk/tube"
)

// position is where a job is among the jobs of its tube in its state. The state decides which
// fields matter; the others are zero.
type position struct {
	pri   uint32
	due   time.Duration
	order int
	id    uint64
}

func (j *modelJob) position() position {
	switch j.state {
	case tube.Ready:
		return position{pri: j.pri, id: j.id}
	case tube.Buried:
		return position{order: j.order, id: j.id}
	}
	return position{due: j.due, order: j.order, id: j.id}
}

func (a position) before(b position) bool {
	switch {
	case a.pri != b.pri:
		return a.pri < b.pri
	case a.due != b.due:
		return a.due < b.due
	case a.order != b.order:
		return a.order < b.order
	}
	return a.id < b.id
}

// sorted returns the jobs that are in a state and accepted, in order.
func (m *Model) sorted(s tube.State, accept func(*modelJob) bool) (jobs []*modelJob) {
	for _, j := range m.jobs {
		if j.state == s && accept(j) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *modelJob) int {
		if less(a, b) {
			return -1
		}
		return 1
	})
	return jobs
}
