package storetest

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// groupNames are the groups of a random history.
var groupNames = []string{"g", "h", "other group"}

// manyGroupNames are those of a history with more groups.
var manyGroupNames = append([]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, groupNames...)

// someGroup returns a group.
func (h *history) someGroup() string {
	names := groupNames
	if h.light {
		names = manyGroupNames
	}
	return names[h.random.IntN(len(names))]
}

// randomGroup returns a group, or none.
func (h *history) randomGroup() string {
	if !h.groups || h.random.IntN(3) == 0 {
		return ""
	}
	return h.someGroup()
}

// groupTags returns tags that say only the group of a job, nil if it should have others too.
func (h *history) groupTags() *tube.Tags {
	if !h.light || h.random.IntN(5) == 0 {
		return nil
	}
	return &tube.Tags{Group: h.someGroup()}
}

// randomGroupOp makes op an operation about a group.
func (h *history) randomGroupOp(op storage.Op) storage.Op {
	r := h.random
	op.Tube, op.Args = policyTubes[r.IntN(len(policyTubes))], &storage.Args{Group: h.someGroup()}
	switch n := r.IntN(12); {
	case n < 3:
		op.Kind, op.Args.GroupConfig = storage.SetGroup, h.randomGroupConfig()
	case n < 5:
		op.Kind, op.Delay = storage.PauseGroup, uint32(r.IntN(4))
	case n < 6:
		op.Kind = storage.GetGroup
	case n < 9:
		op.Kind = storage.GroupStats
	case n < 11:
		op.Kind, op.MaxJobs, op.Args.Group = storage.ListGroups, 100, ""
	default:
		op.Kind, op.State = storage.Flush, tube.Gone
	}
	return op
}

// randomGroupConfig returns a config, or nil. It can be forgotten only if the history asks for it
// after each step, see followConfigs.
func (h *history) randomGroupConfig() *tube.GroupConfig {
	r := h.random
	if r.IntN(3) == 0 {
		return nil
	}
	config := &tube.GroupConfig{Limits: h.randomLimits(), Weight: uint32(1 + r.IntN(3))}
	if h.trail == nil {
		config.TTL = []time.Duration{0, 5 * time.Second, time.Hour}[r.IntN(3)]
	}
	return config
}

func (h *history) randomLimits() (l tube.Limits) {
	if h.random.IntN(2) == 0 {
		l.Concurrency = uint32(1 + h.random.IntN(3))
	}
	for i, period := range tube.RatePeriods { // shorter ones end at a time that the model does not know
		if period >= time.Duration(h.engine.unit())*time.Second && h.random.IntN(6) == 0 {
			l.Rates[i] = uint32(1 + h.random.IntN(4))
		}
	}
	return l
}

// limitPolicy sometimes adds limits to a policy.
func (h *history) limitPolicy(p *tube.Policy, pattern bool) {
	r := h.random
	if !h.groups {
		return
	}
	if h.light && r.IntN(3) > 0 {
		p.GroupLimits.Concurrency = uint32(r.IntN(4))
		return
	}
	if r.IntN(4) == 0 {
		p.Limits = h.randomLimits()
		p.Limits.Concurrency *= 2
	}
	if r.IntN(2) == 0 {
		p.GroupLimits = h.randomLimits()
	}
	if r.IntN(3) == 0 {
		p.GroupOrder = tube.GroupOrder(r.IntN(3))
	}
	if r.IntN(8) == 0 && !pattern {
		p.Push = tube.Push{URL: "http://127.0.0.1/", Rate: uint32(1 + r.IntN(6)), RateEvery: time.Hour}
	}
}

// groupPages lists the groups of a tube, page by page.
func (h *history) groupPages() {
	h.pages(storage.Op{Kind: storage.ListGroups, Tube: policyTubes[h.random.IntN(len(policyTubes))], MaxJobs: uint32(1 + h.random.IntN(2))})
}

// followConfigs asks the store whether it has forgotten configs, where it may.
func (h *history) followConfigs() {
	busy := h.model.busyGroups()
	for l, g := range h.model.groups {
		if !g.forgettable(h.model.now) {
			continue
		}
		ops := []storage.Op{{Kind: storage.GetGroup, Tube: l.tube, Args: &storage.Args{Group: l.group}}}
		storage.DoWait(h.store, ops)
		if ops[0].Answer.NotFound {
			h.logf("the config of group %s of %s is forgotten", l.group, l.tube)
			g.config = nil
		} else if busy[l] {
			g.hadJob = h.model.now
		}
	}
}

// untilPolicy returns a batch up to its first change of a policy, if the history contains limits: a
// store may check the limits of many groups only in its next Tick.
func (h *history) untilPolicy(batch []storage.Op) []storage.Op {
	for i := range batch {
		if batch[i].Kind == storage.SetPolicy && h.groups {
			return batch[:i+1]
		}
	}
	return batch
}
