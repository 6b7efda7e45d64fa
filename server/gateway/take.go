package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
)

// Take reserves up to n jobs of several topics by leases, and waits up to wait for the first
// one: 0 does not wait, storage.Forever waits without limit. Topics are searched in order;
// while Take waits, the first job that arrives is taken. All jobs of one call are of one
// topic, or arrived while it waited.
//
// Whenever it returns an error, the caller has no job from this call. The error is
// queue.ErrTimedOut if there was no job in time, and ErrTooMany if too many clients are
// waiting.
func (j *Jobs) Take(ctx context.Context, topics []string, n int, wait time.Duration) ([]*Job, error) {
	tubes := tubesOf(topics)
	for _, name := range tubes {
		if err := Check(ctx, "reserve-lease", name); err != nil {
			return nil, err
		}
	}
	if wait > 0 {
		defer j.waiting.Add(-1)
		if j.waiting.Add(1) > j.maxWaiting {
			return nil, ErrTooMany
		}
	}
	began := time.Now()
	for {
		left := wait
		if wait != storage.Forever {
			left = max(wait-time.Since(began), 0)
		}
		taken, err := j.reserve(ctx, tubes, n, left)
		switch {
		case err == nil:
			return newJobs(taken), nil
		case !errors.Is(err, queue.ErrTimedOut) || time.Since(began) >= wait:
			return nil, err
		}
		// There was a job, but it was replaced or deleted just now.
	}
}

func newJobs(taken []queue.Leased) []*Job {
	jobs := make([]*Job, len(taken))
	for i, t := range taken {
		jobs[i] = newJob(t.Job, t.Stats)
	}
	return jobs
}

// tubesOf returns the tubes of topics, each once.
func tubesOf(topics []string) (tubes []string) {
	for _, topic := range topics {
		if t := Tube(topic); !slices.Contains(tubes, t) {
			tubes = append(tubes, t)
		}
	}
	return tubes
}

func (j *Jobs) reserve(ctx context.Context, tubes []string, n int, wait time.Duration) ([]queue.Leased, error) {
	if len(tubes) > 1 {
		for i := range tubes {
			jobs, err := j.queue.ReserveLeases(ctx, tubes[i:i+1], n, 0)
			if !errors.Is(err, queue.ErrTimedOut) {
				return jobs, err
			}
		}
	}
	return j.queue.ReserveLeases(ctx, tubes, n, wait)
}

// GiveBack makes jobs ready again that were taken for a client that has not received them.
// Only the reservation is counted.
func (j *Jobs) GiveBack(jobs ...*Job) {
	taken := make([]queue.Leased, len(jobs))
	for i, job := range jobs {
		taken[i].ID, taken[i].Lease = job.Stats.ID, job.Lease
	}
	j.queue.GiveBackLeases(taken)
}
