package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// applyGroup carries out an operation on one group of a tube.
func (e *Engine) applyGroup(now tube.Instant, op *storage.Op) {
	m, a, group := e.machine, &op.Answer, op.Args.Group
	switch op.Kind {
	case storage.SetGroup:
		m.SetGroup(now, op.Tube, group, op.Args.GroupConfig)
	case storage.PauseGroup:
		m.PauseGroup(now, op.Tube, group, op.Delay)
	case storage.GetGroup:
		config := m.Group(op.Tube, group)
		a.NotFound, a.Result = config == nil, &storage.Result{GroupConfig: config}
	case storage.GroupStats:
		s, found := m.GroupStats(now, op.Tube, group)
		if a.NotFound = !found; found {
			a.Result = &storage.Result{Groups: []tube.GroupStats{s}}
		}
	}
}

// listGroups carries out a ListGroups. It returns false if it has to be tried again later. It examines
// the names of all groups of the tube, so no more than one page is made under one hold of the lock.
func (e *Engine) listGroups(now tube.Instant, op *storage.Op) (done bool) {
	if !e.mayBeginMany() {
		return false
	}
	groups, next := e.machine.ListGroups(now, op.Tube, cursorOf(op), int(op.MaxJobs))
	e.spend(e.budget)
	op.Answer.Result = &storage.Result{Groups: groups, Cursor: next}
	return true
}
