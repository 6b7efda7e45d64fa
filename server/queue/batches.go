package queue

import (
	"context"

	"redstalk/storage"
	"redstalk/tube"
)

// The calls of this file read and change the records of batches. Package jobbatch decides when a batch has
// ended.

// SealBatch says that a batch gets no more members. After an error it may be sealed in part, and can be
// sealed again.
func (q *Queue) SealBatch(ctx context.Context, name string) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.SealBatch, Args: &storage.Args{Name: name}})
	return err
}

// GetBatch returns the records of a batch, one of each part of the store that has one, and the time of the
// store.
func (q *Queue) GetBatch(ctx context.Context, name string) (*storage.Result, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.GetBatch, Args: &storage.Args{Name: name}})
	return a.Result, err
}

// ListBatches returns the records of up to count batches in the order of their names, starting behind a
// cursor; "" is the beginning. The Cursor of the result is "" if there are no more.
func (q *Queue) ListBatches(ctx context.Context, count uint32, cursor string) (*storage.Result, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.ListBatches, MaxJobs: count, Args: &storage.Args{Cursor: cursor}})
	return a.Result, err
}

// ListMembers returns up to count members of a batch that exist; the cursors are as in ListBatches, and a page can be
// empty though there are more.
func (q *Queue) ListMembers(ctx context.Context, name string, count uint32, cursor string) (jobs []tube.JobStats, next string, err error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.ListMembers, MaxJobs: count, Args: &storage.Args{Name: name, Cursor: cursor}})
	if err != nil || a.Result == nil {
		return nil, "", err
	}
	return a.Result.Jobs, a.Result.Cursor, nil
}

// CancelBatch seals a batch and removes its members that are not reserved. It returns how many.
func (q *Queue) CancelBatch(ctx context.Context, name string) (int, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.CancelBatch, Args: &storage.Args{Name: name}})
	return a.Count, err
}

// DueBatches returns records that are due, and claims them: at most count of each part of the store.
func (q *Queue) DueBatches(ctx context.Context, count uint32) (*storage.Result, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.DueBatches, MaxJobs: count})
	return a.Result, err
}
