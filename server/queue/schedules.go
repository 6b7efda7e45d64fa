package queue

import (
	"context"

	"redstalk/storage"
)

// The calls of this file read and remove the records of schedules. Package schedule decides what is
// in them.

// GetSchedule returns the records of a name, usually one, and the time of the store; on some stores that
// also with ErrNotFound.
func (q *Queue) GetSchedule(ctx context.Context, name string) (*storage.Result, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.GetSchedule, Args: &storage.Args{Name: name}})
	return a.Result, err
}

// ListSchedules returns up to count records, without bodies, in the order of their names, starting
// behind a cursor; "" is the beginning. The Cursor of the result is "" if there are no more.
func (q *Queue) ListSchedules(ctx context.Context, count uint32, cursor string) (*storage.Result, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.ListSchedules, MaxJobs: count, Args: &storage.Args{Cursor: cursor}})
	return a.Result, err
}

// DeleteSchedule removes the record of a name that lives where a tube does.
func (q *Queue) DeleteSchedule(ctx context.Context, name, tubeName string) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.DeleteSchedule, Tube: tubeName, Args: &storage.Args{Name: name}})
	return err
}

// DueSchedules returns records that are due, and claims them: at most count of each part of the store.
func (q *Queue) DueSchedules(ctx context.Context, count uint32) (*storage.Result, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.DueSchedules, MaxJobs: count})
	return a.Result, err
}
