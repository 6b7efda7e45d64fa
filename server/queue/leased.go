package queue

import (
	"context"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Leased is a job that was reserved by a lease, with what is known of it.
type Leased struct {
	Job
	Stats *tube.JobStats
}

const (
	// maxLeasedBytes bounds the bodies that ReserveLeases returns; the first one may be
	// larger.
	maxLeasedBytes = 16 << 20

	// maxTakes bounds how many jobs are taken at once. Others have their turn before the
	// next ones. maxTakenTubes bounds it where there are many tubes to look at.
	maxTakes      = 256
	maxTakenTubes = 8192
)

// ReserveLeases is ReserveLease for up to n jobs. It waits for the first one only, and
// returns fewer if there are no more, or if their bodies are too much together.
//
// Whenever it returns an error, the caller has no job from this call: those that it had got
// by then are given back.
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

// takesThatFit returns how many of n jobs may be taken at once, so that the bodies stay
// within their bound whatever they are.
func (q *Queue) takesThatFit(n, bytes int, tubes []string) int {
	room := max(maxLeasedBytes-bytes, 0) / max(q.MaxJobSize(), 1)
	if bytes == 0 {
		room = max(room, 1)
	}
	return min(n, room, maxTakes, max(maxTakenTubes/len(tubes), 1))
}

// takeLeases takes up to takes jobs, if there are any.
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

// describeLeases adds what is known of the jobs. A job that is gone by now, because somebody
// has replaced it, is left out; if all are, it returns ErrTimedOut.
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
			known = append(known, Leased{jobs[i].Job, a.Job})
		}
	}
	if len(known) == 0 {
		return nil, ErrTimedOut
	}
	return known, nil
}

// GiveBackLeases makes jobs ready again whose caller is gone before it has got them. Nothing
// is counted but the reservation.
func (q *Queue) GiveBackLeases(jobs []Leased) {
	ops := make([]storage.Op, len(jobs))
	for i := range jobs {
		rare := &storage.Result{Lease: jobs[i].Lease}
		ops[i] = storage.Op{Kind: storage.Take, Holder: tube.LeaseHolder, Answer: storage.Answer{ID: jobs[i].ID, Result: rare}}
	}
	q.giveBack(ops)
}
