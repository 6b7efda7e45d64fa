package storetest

import (
	"maps"
	"slices"

	"redstalk/storage"
	"redstalk/tube"
)

// Clone returns an independent copy.
func (m *Model) Clone() *Model {
	c := *m
	c.ended = slices.Clip(m.ended)
	c.policies, c.tombstones, c.turns = maps.Clone(m.policies), maps.Clone(m.tombstones), maps.Clone(m.turns)
	c.schedules, c.batches = maps.Clone(m.schedules), make(map[string]*modelBatch)
	for name, b := range m.batches {
		batch := *b
		batch.verdicts = maps.Clone(b.verdicts)
		c.batches[name] = &batch
	}
	c.groups = make(map[modelLane]*modelGroup)
	for l, g := range m.groups {
		group := *g
		c.groups[l] = &group
	}
	c.tubes, c.jobs = make([]*modelTube, 0, len(m.tubes)), make([]*modelJob, 0, len(m.jobs))
	copies := make(map[*modelTube]*modelTube)
	for _, t := range m.tubes {
		tube := *t
		copies[t] = &tube
		c.tubes = append(c.tubes, &tube)
	}
	for _, j := range m.jobs {
		job := *j
		job.tube = copies[j.tube]
		c.jobs = append(c.jobs, &job)
	}
	return &c
}

// LastID returns the largest id that was used so far.
func (m *Model) LastID() uint64 { return m.lastID }

// Reopened returns what survives of m when the store is opened at the time of the model now.
// Delays and pauses that are over by then are over.
func (m *Model) Reopened(keepsTubes bool, now *Model) *Model {
	c := m.Clone()
	c.Reopen(keepsTubes)
	c.Tick(now.now)
	return c
}

// Differs compares all that a store answers with what m would answer. It returns in what they
// differ; "" if in nothing. Neither is changed.
func (m *Model) Differs(s storage.Store) string {
	ops := []storage.Op{{Kind: storage.Stats}, {Kind: storage.Tubes}}
	for _, name := range policyTubes {
		if len(m.ended) < tube.MaxListed {
			ops = append(ops, storage.Op{Kind: storage.ListEnded, Tube: name, MaxJobs: tube.MaxListed})
		}
	}
	for _, name := range tubeNames {
		ops = append(ops, storage.Op{Kind: storage.TubeStats, Tube: name, Info: true}, storage.Op{Kind: storage.ListGroups, Tube: name, MaxJobs: 100})
		for _, group := range groupNames {
			ops = append(ops, storage.Op{Kind: storage.GetGroup, Tube: name, Args: &storage.Args{Group: group}})
		}
		for _, state := range []tube.State{tube.Ready, tube.Delayed, tube.Buried} {
			ops = append(ops, storage.Op{Kind: storage.PeekHead, Tube: name, State: state})
		}
	}
	for _, name := range scheduleNames {
		ops = append(ops, storage.Op{Kind: storage.GetRecord, Records: tube.Schedules, Args: &storage.Args{Name: name}})
	}
	for _, name := range batchNames {
		ops = append(ops, storage.Op{Kind: storage.GetRecord, Records: tube.JobBatches, Args: &storage.Args{Name: name}})
	}
	ops = append(ops, storage.Op{Kind: storage.ListRecords, Records: tube.JobBatches, MaxJobs: 100, Args: &storage.Args{}})
	ops = append(ops, storage.Op{Kind: storage.Policies}, storage.Op{Kind: storage.ListRecords, Records: tube.Schedules, MaxJobs: 100, Args: &storage.Args{}})
	for _, name := range policyScopes {
		ops = append(ops, storage.Op{Kind: storage.GetPolicy, Tube: name})
	}
	for id := range m.lastID + 3 {
		ops = append(ops, storage.Op{Kind: storage.JobStats, ID: id}, storage.Op{Kind: storage.Peek, ID: id}, storage.Op{Kind: storage.GetCheckpoint, ID: id})
	}
	return m.agrees(s, ops...)
}

// DiffersApart compares what only shows when both are emptied: the order of delayed and buried
// jobs, the schedules and batches that are due, and the id of the next job. Both are changed.
func (m *Model) DiffersApart(s storage.Store) string {
	if diff := m.agrees(s, storage.Op{Kind: storage.DueRecords, Records: tube.Schedules, MaxJobs: 100}, storage.Op{Kind: storage.DueRecords, Records: tube.JobBatches, MaxJobs: 100}); diff != "" {
		return diff
	}
	for _, name := range tubeNames {
		for _, state := range []tube.State{tube.Delayed, tube.Buried} {
			head := storage.Op{Kind: storage.PeekHead, Tube: name, State: state}
			for {
				if diff := m.agrees(s, head); diff != "" {
					return diff
				}
				first := m.first(state, func(j *modelJob) bool { return j.tube.name == name })
				if first == nil {
					break
				}
				if diff := m.agrees(s, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: first.id}); diff != "" {
					return diff
				}
			}
		}
	}
	return m.agrees(s, storage.Op{Kind: storage.Put, Tube: "a"})
}

// follow carries out an operation that the store has answered so.
func (m *Model) follow(op *storage.Op, answered *storage.Answer) {
	m.hint, m.hintDue, m.hintBatches = answered.ID, nil, nil
	if r := answered.Result; r != nil {
		m.hintDue, m.hintBatches = r.Schedules(), r.Batches()
	}
	m.Do(op)
	m.hint, m.hintDue, m.hintBatches = 0, nil, nil
}

// agrees carries out the operations on both. It returns in what their answers differ; "" if in
// nothing.
func (m *Model) agrees(s storage.Store, ops ...storage.Op) string {
	mine := slices.Clone(ops)
	storage.DoWait(s, ops)
	m.Begin()
	for i := range ops {
		m.follow(&mine[i], &ops[i].Answer)
		if diff := differ(&ops[i].Answer, &mine[i].Answer, 1); diff != "" {
			return diff + ": " + describe(&ops[i]) + "\nstore: " + show(&ops[i].Answer) + "\nmodel: " + show(&mine[i].Answer)
		}
	}
	return ""
}
