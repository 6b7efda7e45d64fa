package queue

import (
	"context"

	"redstalk/storage"
	"redstalk/tube"
)

// The calls of this file concern one group of a tube, or list the groups of a tube. Neither tube nor
// group need exist. What jobs.go says about its calls holds for these too.

// SetGroup sets what applies to a group instead of the policy of its tube; nil removes it. The config
// must not be changed any more.
func (q *Queue) SetGroup(ctx context.Context, name, group string, config *tube.GroupConfig) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.SetGroup, Tube: name, Args: &storage.Args{Group: group, GroupConfig: config}})
	return err
}

// Group returns what SetGroup has set, which must not be changed; ErrNotFound if that is nothing.
func (q *Queue) Group(ctx context.Context, name, group string) (*tube.GroupConfig, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.GetGroup, Tube: name, Args: &storage.Args{Group: group}})
	if err != nil {
		return nil, err
	}
	return a.Result.GroupConfig, nil
}

// GroupStats returns the stats of a group; ErrNotFound if it has no job, nothing is set for it, and it
// is not paused.
func (q *Queue) GroupStats(ctx context.Context, name, group string) (*tube.GroupStats, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.GroupStats, Tube: name, Args: &storage.Args{Group: group}})
	if err != nil {
		return nil, err
	}
	return &a.Result.Groups[0], nil
}

// ListGroups returns up to count groups of a tube that GroupStats finds, in the order of their names,
// starting behind a cursor; "" is the beginning. next is the cursor for the following groups, "" if
// there are none.
func (q *Queue) ListGroups(ctx context.Context, name string, count uint32, cursor string) (groups []tube.GroupStats, next string, err error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.ListGroups, Tube: name, MaxJobs: count, Args: &storage.Args{Cursor: cursor}})
	if err != nil {
		return nil, "", err
	}
	return a.Result.Groups, a.Result.Cursor, nil
}

// PauseGroup stops the starts of jobs of a group for that many seconds; 0 ends a pause.
func (q *Queue) PauseGroup(ctx context.Context, name, group string, seconds uint32) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.PauseGroup, Tube: name, Delay: seconds, Args: &storage.Args{Group: group}})
	return err
}

// FlushGroup removes the ready, delayed and buried jobs of a group. It returns how many jobs it has
// removed.
func (q *Queue) FlushGroup(ctx context.Context, name, group string) (int, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.Flush, Tube: name, Args: &storage.Args{Group: group}})
	return a.Count, err
}
