package queue

import (
	"context"
	"slices"

	"redstalk/storage"
	"redstalk/tube"
)

// policiesPerBatch is how many policies are read in one batch.
const policiesPerBatch = 32

// DeadLetterTubes returns the tubes that policies name as dead-letter tube. The tag of a put can name others:
// see FirstIn.
func (q *Queue) DeadLetterTubes(ctx context.Context) (map[string]bool, error) {
	targets := make(map[string]bool)
	names, err := q.Policies(ctx)
	for some := range slices.Chunk(names, policiesPerBatch) {
		ops := make([]storage.Op, len(some))
		for i, name := range some {
			ops[i] = storage.Op{Kind: storage.GetPolicy, Tube: name}
		}
		answers, err := q.Do(ctx, ops...)
		if err != nil {
			return nil, err
		}
		for i := range answers {
			if answers[i].Err != nil {
				return nil, answers[i].Err
			}
			if r := answers[i].Result; !answers[i].NotFound && r.Policy != nil && r.Policy.Dead != "" {
				targets[r.Policy.Dead] = true
			}
		}
	}
	return targets, err
}

// FirstIn returns an operation that reads the first job of a tube in a state. If that is a dead letter, the
// tube counts as one for dead letters.
func FirstIn(name string, state tube.State) storage.Op {
	return storage.Op{Kind: storage.ListJobs, Tube: name, State: state, MaxJobs: 1, Args: &storage.Args{}}
}

// IsDeadLetter reports whether the answer to FirstIn has a job that came to its tube as a dead letter.
func IsDeadLetter(a *storage.Answer) bool {
	return len(a.Result.Jobs) > 0 && a.Result.Jobs[0].Home() != ""
}
