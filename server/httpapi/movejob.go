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

// This file moves single jobs to another tube. Stores move only the first ones of a state.

// unseenFor is how long a job that is to be buried in its new tube is kept from workers, until
// it is.
const unseenFor = time.Minute

// moveJob moves a job that nobody holds to another tube, where it is in the same state and has
// another id. It is held meanwhile, and the new job is put before it goes: if something breaks
// in between there are two, never none. What cannot be moved is as it was.
func (d *Door) moveJob(ctx context.Context, id uint64, to string) error {
	s, err := d.queue.JobStats(ctx, id)
	if err != nil {
		return err
	}
	if s.Tube == to || s.State == tube.Reserved || checkRedirect(ctx, s.Tube, to) != nil {
		return queue.ErrNotFound
	}
	ctx = context.WithoutCancel(ctx) // what has begun is brought to an end
	holder := d.queue.NewHolder()
	defer d.queue.Leave(ctx, holder)
	job, err := d.queue.ReserveJob(ctx, holder, id)
	if err != nil {
		return err
	}
	made, err := d.putCopy(ctx, s, job.Body, to)
	if err != nil {
		return errors.Join(err, d.putBack(ctx, holder, s))
	}
	if err := d.queue.Delete(ctx, holder, id); err != nil {
		return err
	}
	if s.State != tube.Buried {
		return nil
	}
	if err := d.buryJob(ctx, made); !errors.Is(err, queue.ErrNotFound) {
		return err
	}
	return nil // somebody has dealt with it already
}

// putCopy puts a job like one that is held. If its key is taken there it is ErrNotFound.
func (d *Door) putCopy(ctx context.Context, s *tube.JobStats, body []byte, to string) (id uint64, err error) {
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
		tags.Delay, tags.HasDelay = unseenFor, true
	}
	if s.Metadata != nil || tags.HasDelay {
		op.Args = &storage.Args{Tags: tags}
	}
	answers, err := d.queue.Do(ctx, op)
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

// putBack gives a job that is held the state back that it had.
func (d *Door) putBack(ctx context.Context, holder tube.Holder, s *tube.JobStats) error {
	if s.State == tube.Buried {
		return d.queue.Bury(ctx, holder, s.ID, s.Pri)
	}
	seconds := (max(s.TimeLeft, 0) + time.Second - 1) / time.Second
	if s.State != tube.Delayed {
		seconds = 0
	}
	return d.queue.Release(ctx, holder, s.ID, tube.Terms{Pri: s.Pri, Delay: uint32(seconds)})
}
