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

// listGroups carries out a ListGroups, or a part of it.
func (e *Engine) listGroups(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if !e.mayBeginMany() {
		return false
	}
	if !p.begun {
		p.begun, p.groups = true, tube.NewGroupListing(op.Tube, cursorOf(op), int(op.MaxJobs))
	}
	groups, next, work, done := e.machine.ListGroupsSome(now, p.groups, e.budget)
	e.spend(work)
	if done {
		op.Answer.Result = &storage.Result{Groups: groups, Cursor: next}
	}
	return done
}
