package queue

import (
	"context"

	"redstalk/storage"
	"redstalk/tube"
)

// Tallies returns what happened in a tube, or with "" in all tubes together, in the last count periods, from the earliest on. Periods
// in which nothing was counted are missing. now is the time of the store. Package tally adds to them.
func (q *Queue) Tallies(ctx context.Context, name string, period tube.Period, count int) (all []tube.PeriodTally, now tube.Instant, err error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.ReadTallies, Tube: name, Args: &storage.Args{Tallies: &storage.Tallies{Period: period, Count: count}}})
	if err != nil {
		return nil, 0, err
	}
	return a.Result.Tallies, a.Result.Now, nil
}
