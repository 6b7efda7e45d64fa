package queue

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"redstalk/storage"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// The calls of this file read and change named records: schedules and batches. Package schedule decides what is in those of
// schedules, package jobbatch when a batch has ended.

// RecordsDue receives when the store has records of a kind that are due, see storage.Listener.
func (q *Queue) RecordsDue(kind tube.RecordKind) <-chan struct{} { return q.recordsDue[kind] }

// GetRecord returns the records of a name, one of each part of the store that has one, and the time of the store;
// on some stores that also with ErrNotFound.
func (q *Queue) GetRecord(ctx context.Context, kind tube.RecordKind, name string) (*storage.Result, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.GetRecord, Records: kind, Args: &storage.Args{Name: name}})
	return a.Result, err
}

// ListRecords returns the records of up to count names in their order, starting behind a cursor; "" is the beginning. The
// Cursor of the result is "" if there are no more.
func (q *Queue) ListRecords(ctx context.Context, kind tube.RecordKind, count uint32, cursor string) (*storage.Result, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.ListRecords, Records: kind, MaxJobs: count, Args: &storage.Args{Cursor: cursor}})
	return a.Result, err
}

// DueRecords returns records that are due, and claims them: at most count of each part of the store.
func (q *Queue) DueRecords(ctx context.Context, kind tube.RecordKind, count uint32) (*storage.Result, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.DueRecords, Records: kind, MaxJobs: count})
	return a.Result, err
}

// DeleteSchedule removes the record of a name that lives where a tube does.
func (q *Queue) DeleteSchedule(ctx context.Context, name, tubeName string) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.DeleteSchedule, Tube: tubeName, Args: &storage.Args{Name: name}})
	return err
}

// SealBatch says that a batch gets no more members. After an error it may be sealed in part, and can be
// sealed again.
func (q *Queue) SealBatch(ctx context.Context, name string) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.SealBatch, Args: &storage.Args{Name: name}})
	return err
}

// ListMembers returns up to count members of a batch that exist; the cursors are as in ListRecords, and a page can be
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

// LogRetry logs that something about records has failed and will be tried again when their claims end, unless the server
// is ending.
func LogRetry(log *slog.Logger, t *telemetry.Throttle, what string, err error, args ...any) {
	if !errors.Is(err, storage.ErrClosed) && !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
		t.Warn(log, what, append(args, "err", err, "again", tube.ClaimTime.Round(time.Second))...)
	}
}
