package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// Take reserves the next job of several topics by a lease, and waits up to wait for one: 0
// does not wait, storage.Forever sets no limit. A topic comes before those behind it, as
// long as jobs are there; while Take waits, the first job that comes is taken.
//
// Whenever it returns an error, the caller has no job from this call. It is
// queue.ErrTimedOut if there was none in time.
func (j *Jobs) Take(ctx context.Context, topics []string, wait time.Duration) (*Job, error) {
	tubes := tubesOf(topics)
	began := time.Now()
	for {
		left := wait
		if wait != storage.Forever {
			left = max(wait-time.Since(began), 0)
		}
		taken, err := j.reserve(ctx, tubes, left)
		if err != nil {
			return nil, err
		}
		job, err := j.describe(ctx, taken)
		if !errors.Is(err, queue.ErrNotFound) {
			return job, err
		}
		// It was replaced or deleted just now.
	}
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

func (j *Jobs) reserve(ctx context.Context, tubes []string, wait time.Duration) (queue.Job, error) {
	if len(tubes) > 1 {
		for i := range tubes {
			job, err := j.queue.ReserveLease(ctx, tubes[i:i+1], 0)
			if !errors.Is(err, queue.ErrTimedOut) {
				return job, err
			}
		}
	}
	return j.queue.ReserveLease(ctx, tubes, wait)
}

// describe returns what is known of a job that was taken.
func (j *Jobs) describe(ctx context.Context, taken queue.Job) (*Job, error) {
	s, err := j.queue.JobStats(ctx, taken.ID)
	switch {
	case err == nil:
		return newJob(taken, s), nil
	case !errors.Is(err, queue.ErrNotFound):
		j.giveBack(ctx, []storage.Op{giveBack(taken.ID, taken.Lease)})
	}
	return nil, err
}

// giveBackLimit is how long the store may take to give jobs back. It does so all the same if
// it takes longer.
const giveBackLimit = 10 * time.Second

func giveBack(id, lease uint64) storage.Op {
	return storage.Op{Kind: storage.Move, Move: tube.GiveBack, Holder: tube.LeaseHolder, ID: id, Rare: &storage.Rare{Lease: lease}}
}

// giveBack carries out ops even if ctx has ended. If the store fails, the TTR of the jobs
// runs out.
func (j *Jobs) giveBack(ctx context.Context, ops []storage.Op) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackLimit)
	defer cancel()
	j.queue.Do(ctx, ops...)
}
