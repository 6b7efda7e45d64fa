package queue

import (
	"context"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Leased is a job that was reserved by a lease, with its stats.
type Leased struct {
	Job
	Stats      *tube.JobStats
	Checkpoint []byte // nil: it has none, or its Stats say that it has one, and Queue.Checkpoint reads it
}

const (
	// maxLeasedBytes limits the bodies that ReserveLeases returns in total. The first one may be
	// larger.
	maxLeasedBytes = 16 << 20

	// maxCheckpointBytes limits the checkpoints that it returns in total.
	maxCheckpointBytes = 4 << 20

	// maxTakes limits how many jobs one batch takes, so that other callers are served in
	// between. maxTakenTubes lowers the limit if there are many tubes to search.
	maxTakes      = 256
	maxTakenTubes = 8192
)

// ReserveLeases is ReserveLease for up to n jobs. It waits only for the first one, and
// returns fewer if there are no more jobs, or if their bodies would be too large together.
//
// Whenever it returns an error, the caller has no job from this call: jobs that were taken
// before the error are given back.
func (q *Queue) ReserveLeases(ctx context.Context, tubes []string, n int, wait time.Duration) ([]Leased, error) {
	var jobs []Leased
	if n > 1 {
		more, err := q.takeLeases(ctx, tubes, q.takesThatFit(n, 0, tubes))
		if err != nil {
			return nil, err
		}
		jobs = more
	}
	if len(jobs) == 0 {
		first, err := q.ReserveLease(ctx, tubes, wait)
		if err != nil {
			return nil, err
		}
		jobs = []Leased{{Job: first}}
	}
	jobs, err := q.fillLeases(ctx, tubes, n, jobs)
	if err == nil {
		jobs, err = q.describeLeases(ctx, jobs)
	}
	if err == nil {
		err = q.addCheckpoints(ctx, jobs)
	}
	if err != nil {
		q.GiveBackLeases(jobs)
		return nil, err
	}
	return jobs, nil
}

// fillLeases takes more jobs without waiting, until there are n, or no more that fit.
func (q *Queue) fillLeases(ctx context.Context, tubes []string, n int, jobs []Leased) ([]Leased, error) {
	bytes := 0
	for i := range jobs {
		bytes += len(jobs[i].Body)
	}
	for {
		takes := q.takesThatFit(n-len(jobs), bytes, tubes)
		if takes == 0 {
			return jobs, nil
		}
		more, err := q.takeLeases(ctx, tubes, takes)
		if err != nil {
			return jobs, err
		}
		for i := range more {
			bytes += len(more[i].Body)
		}
		jobs = append(jobs, more...)
		if len(more) < takes {
			return jobs, nil
		}
	}
}

// takesThatFit returns how many of n jobs can be taken in one batch so that the bodies stay
// within their limit even if all have the maximum size.
func (q *Queue) takesThatFit(n, bytes int, tubes []string) int {
	room := max(maxLeasedBytes-bytes, 0) / max(q.MaxJobSize(), 1)
	if bytes == 0 {
		room = max(room, 1)
	}
	return min(n, room, maxTakes, max(maxTakenTubes/len(tubes), 1))
}

// takeLeases takes up to takes jobs, without waiting.
func (q *Queue) takeLeases(ctx context.Context, tubes []string, takes int) (jobs []Leased, err error) {
	ops := make([]storage.Op, takes)
	for i := range ops {
		ops[i] = storage.Op{Kind: storage.Take, Holder: tube.LeaseHolder, Tubes: tubes}
	}
	answers, err := q.Do(ctx, ops...)
	if err != nil {
		return nil, err
	}
	for i := range answers {
		a := &answers[i]
		switch {
		case a.Err != nil:
			err = a.Err
		case !a.NotFound:
			jobs = append(jobs, Leased{Job: jobIn(a)})
		}
	}
	if err != nil {
		q.GiveBackLeases(jobs)
		return nil, err
	}
	return jobs, nil
}

// describeLeases adds the stats of the jobs. A job that is gone by now, because another put
// has replaced it, is left out. If all are gone, it returns ErrTimedOut.
func (q *Queue) describeLeases(ctx context.Context, jobs []Leased) ([]Leased, error) {
	ops := make([]storage.Op, len(jobs))
	for i := range ops {
		ops[i] = storage.Op{Kind: storage.JobStats, ID: jobs[i].ID}
	}
	answers, err := q.Do(ctx, ops...)
	if err != nil {
		return jobs, err
	}
	known := make([]Leased, 0, len(jobs))
	for i := range answers {
		switch a := &answers[i]; {
		case a.Err != nil:
			return jobs, a.Err
		case !a.NotFound:
			known = append(known, Leased{Job: jobs[i].Job, Stats: a.Job})
		}
	}
	if len(known) == 0 {
		return nil, ErrTimedOut
	}
	return known, nil
}

// addCheckpoints reads the checkpoints of jobs, as far as there is room. It leaves out what cannot be read.
func (q *Queue) addCheckpoints(ctx context.Context, jobs []Leased) error {
	var ops []storage.Op
	var of []*Leased
	bytes := 0
	for i := range jobs {
		size := jobs[i].Stats.Metadata.CheckpointSize()
		if bytes += size; size > 0 && bytes <= maxCheckpointBytes {
			ops, of = append(ops, storage.Op{Kind: storage.GetCheckpoint, ID: jobs[i].ID}), append(of, &jobs[i])
		}
	}
	if len(ops) == 0 {
		return nil
	}
	answers, err := q.Do(ctx, ops...)
	for i := range answers {
		of[i].Checkpoint = answers[i].Body
	}
	return err
}

// GiveBackLeases makes jobs ready again whose caller has left before it received them. Only
// the reservation is counted.
func (q *Queue) GiveBackLeases(jobs []Leased) {
	ops := make([]storage.Op, len(jobs))
	for i := range jobs {
		result := &storage.Result{Lease: jobs[i].Lease}
		ops[i] = storage.Op{Kind: storage.Take, Holder: tube.LeaseHolder, Answer: storage.Answer{ID: jobs[i].ID, Result: result}}
	}
	q.giveBack(ops)
}
