package redis

import (
	"slices"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/storetest"
	"redstalk/tube"
)

// renumbered makes a store of several partitions look like one of a single
// partition, which the suite expects: its ids are 1, 2, 3 …, and tubes are
// listed in the order of storetest's model, as long as they are the same ones.
// It lives as long as the data.
type renumbered struct {
	store storage.Store // open now

	mu    sync.Mutex
	real  []uint64 // ids, real[0] being that of job 1
	model *storetest.Model
	now   time.Duration
}

func newRenumbered() *renumbered { return &renumbered{model: storetest.NewModel()} }

// opened goes on with the data in another store.
func (r *renumbered) opened(s storage.Store) storage.Store {
	if r.store != nil {
		r.model.Reopen(true)
	}
	r.store = s
	return r
}

func (r *renumbered) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d >= time.Second { // smaller steps only separate events
		r.now += d
		r.model.Tick(r.now)
	}
}

func (r *renumbered) Listen(l storage.Listener)       { r.store.Listen(renumberedListener{l, r}) }
func (r *renumbered) Tick() (time.Duration, error)    { return r.store.Tick() }
func (r *renumbered) TickAll() (time.Duration, error) { return r.store.TickAll() }
func (r *renumbered) Shared() bool                    { return r.store.Shared() }
func (r *renumbered) Close() error                    { return r.store.Close() }

// renumberedListener is the listener of the suite.
type renumberedListener struct {
	storage.Listener
	r *renumbered
}

func (l renumberedListener) JobEnded(id uint64) {
	l.r.mu.Lock()
	id = l.r.shown(id)
	l.r.mu.Unlock()
	l.Listener.JobEnded(id)
}

func (r *renumbered) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		r.part(b, 0)
	}
}

// part carries out the operations of a batch from that one on, as far as the
// ids in them are known, and then the rest.
func (r *renumbered) part(b *storage.Batch, from int) {
	if from == len(b.Ops) {
		b.Done()
		return
	}
	ops := slices.Clone(b.Ops[from:])
	for i := range ops {
		id, known := r.realID(ops[i].ID)
		if !known && puts(ops[:i]) {
			ops = ops[:i]
			break
		}
		ops[i].ID = id
	}
	r.store.Do(&storage.Batch{Ops: ops, Done: func() {
		r.answer(ops, b.Ops[from:from+len(ops)])
		r.part(b, from+len(ops))
	}})
}

func puts(ops []storage.Op) bool {
	return slices.ContainsFunc(ops, func(op storage.Op) bool { return op.Kind == storage.Put || op.Kind == storage.PutScheduled })
}

// realID returns the id of a job as the store has it.
func (r *renumbered) realID(id uint64) (uint64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case id == 0 || id > 1<<40:
		return id, true
	case id > uint64(len(r.real)):
		return 1<<50 + id, false
	}
	return r.real[id-1], true
}

// answer translates what the store has answered.
func (r *renumbered) answer(done, to []storage.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range done {
		a := done[i].Answer
		modelled := to[i]
		r.model.Do(&modelled)
		if done[i].Kind == storage.Put && a.Err == nil && a.ID != 0 {
			r.real = append(r.real, a.ID)
		}
		if a.ID != 0 {
			a.ID = r.shown(a.ID)
		}
		if a.Job != nil {
			job := r.shownJob(*a.Job)
			a.Job = &job
		}
		if a.Result != nil {
			if a.Result.Traced != nil {
				job := r.shownJob(*a.Result.Traced)
				a.Result.Traced = &job
			}
			for i := range a.Result.Jobs {
				a.Result.Jobs[i] = r.shownJob(a.Result.Jobs[i])
			}
			for i, e := range a.Result.Ended {
				shown := *e
				shown.ID = r.shown(e.ID)
				if e.ToID != 0 {
					shown.ToID = r.shown(e.ToID)
				}
				a.Result.Ended[i] = &shown
			}
			for _, b := range a.Result.Batches() {
				for i := range b.After {
					b.After[i] = r.shownJob(b.After[i])
				}
			}
			for i, s := range a.Result.Schedules() {
				a.Result.Records[i] = r.shownSchedule(s)
			}
		}
		if slices.Equal(sorted(a.Names), sorted(modelled.Answer.Names)) {
			a.Names = modelled.Answer.Names
		}
		to[i].Answer = a
	}
}

// shown returns the id of a job as the suite has it. One that was not put but has come from
// another tube gets the next one when it is first seen. The lock is held.
func (r *renumbered) shown(id uint64) uint64 {
	if at := slices.Index(r.real, id); at >= 0 {
		return uint64(at + 1)
	}
	r.real = append(r.real, id)
	return uint64(len(r.real))
}

// shownJob does so with the ids that are said of a job.
func (r *renumbered) shownJob(s tube.JobStats) tube.JobStats {
	if s.Metadata != nil && s.Metadata.FromID != 0 {
		metadata := *s.Metadata
		metadata.FromID = r.shown(metadata.FromID)
		s.Metadata = &metadata
	}
	s.ID = r.shown(s.ID)
	return s
}

// shownSchedule does so with the id in the results of a schedule.
func (r *renumbered) shownSchedule(s *tube.Schedule) *tube.Schedule {
	record := *s
	if record.Results.ID != 0 {
		record.Results.ID = r.shown(record.Results.ID)
	}
	return &record
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }
