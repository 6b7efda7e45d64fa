package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// This file moves single jobs to another tube. Stores can only move the first jobs of a state.

// hideFor is the delay of a job that is to be buried in its new tube, so that no worker gets it
// before it is buried.
const hideFor = time.Minute

// moveJob moves a job that is not reserved to another tube, where it has the same state and a
// new id. It reserves the job, puts the copy, and then deletes the job: if it fails in between,
// there are two jobs, never none. A job that cannot be moved stays as it was.
func (api *API) moveJob(ctx context.Context, id uint64, to string) error {
	s, err := api.queue.JobStats(ctx, id)
	if err != nil {
		return err
	}
	if s.Tube == to || s.State == tube.Reserved || checkRedirect(ctx, s.Tube, to) != nil {
		return queue.ErrNotFound
	}
	ctx = context.WithoutCancel(ctx) // a move that has begun is completed
	holder := api.queue.NewHolder()
	defer api.queue.ReleaseAll(ctx, holder)
	job, err := api.queue.ReserveJob(ctx, holder, id)
	if err != nil {
		return err
	}
	newID, err := api.putCopy(ctx, s, job.Body, to)
	if err != nil {
		return errors.Join(err, api.restore(ctx, holder, s))
	}
	if err := api.queue.Delete(ctx, holder, id); err != nil {
		return err
	}
	if s.State != tube.Buried {
		return nil
	}
	if err := api.buryJob(ctx, newID); !errors.Is(err, queue.ErrNotFound) {
		return err
	}
	return nil // not found: somebody has already deleted or reserved the copy
}

// putCopy puts a copy of a job into another tube. If the key is taken there, it returns
// queue.ErrNotFound.
func (api *API) putCopy(ctx context.Context, s *tube.JobStats, body []byte, to string) (id uint64, err error) {
	op := storage.Op{Kind: storage.Put, Tube: to, Pri: s.Pri, TTR: s.TTR, Body: body}
	tags := new(tube.Tags)
	if s.Metadata != nil {
		tags.Rules = s.Metadata.Rules
		if tags.Key = s.Metadata.Key; tags.Key != "" {
			tags.OnDuplicate = tube.Fail
		}
	}
	switch s.State {
	case tube.Delayed:
		tags.Delay, tags.HasDelay = max(s.TimeLeft, 0).Truncate(time.Millisecond), true
	case tube.Buried:
		tags.Delay, tags.HasDelay = hideFor, true
	}
	if s.Metadata != nil || tags.HasDelay {
		op.Args = &storage.Args{Tags: tags}
	}
	answers, err := api.queue.Do(ctx, op)
	if err == nil {
		err = putFailure(&answers[0])
	}
	if p, ok := errors.AsType[*problem](err); ok && p.Status == http.StatusConflict {
		err = queue.ErrNotFound
	}
	if err != nil {
		return 0, err
	}
	return answers[0].ID, nil
}

// restore returns a reserved job to the state that it had.
func (api *API) restore(ctx context.Context, holder tube.Holder, s *tube.JobStats) error {
	if s.State == tube.Buried {
		return api.queue.Bury(ctx, holder, s.ID, s.Pri)
	}
	seconds := (max(s.TimeLeft, 0) + time.Second - 1) / time.Second
	if s.State != tube.Delayed {
		seconds = 0
	}
	return api.queue.Release(ctx, holder, s.ID, tube.Terms{Pri: s.Pri, Delay: uint32(seconds)})
}
