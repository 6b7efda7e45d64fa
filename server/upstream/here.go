package upstream

import (
	"context"
	"errors"
	"time"

	"redstalk/protocol/migrate"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// here is the queue for a carrier. A job that is being carried is carried to its end, so no call
// ends with its context.
type here struct {
	queue  *queue.Queue
	holder tube.Holder
}

func newHere(q *queue.Queue) *here { return &here{q, q.NewHolder()} }

// hide is the delay of what is hidden, in seconds.
const hide = uint32(migrate.HideFor / time.Second)

// Lock implements carry.Here. The lock is a job that is reserved.
func (h *here) Lock(ctx context.Context, from string) error {
	ctx = context.WithoutCancel(ctx)
	put, err := h.queue.PutTagged(ctx, queue.NewJob{Tube: migrate.NotesTube, Delay: hide, TTR: 1<<32 - 1}, &tube.Tags{Key: "lock-" + from, OnDuplicate: tube.Keep})
	if err != nil {
		return refusal(err)
	}
	_, err = h.queue.ReserveJob(ctx, h.holder, put.ID)
	if errors.Is(err, queue.ErrNotFound) {
		return migrate.ErrBusy
	}
	return err
}

// Close implements carry.Here.
func (h *here) Close() error { return h.queue.Leave(context.Background(), h.holder) }

// Write implements carry.Here.
func (h *here) Write(ctx context.Context, n *migrate.Note) (uint64, error) {
	id, err := h.queue.Put(context.WithoutCancel(ctx), queue.NewJob{Tube: migrate.NotesTube, Delay: hide, TTR: 1, Body: []byte(n.String())})
	return id, refusal(err)
}

// refusal makes a carry.Refusal of an error that says that a job is not wanted.
func refusal(err error) error {
	for its, word := range map[error]string{queue.ErrTooBig: "JOB_TOO_BIG", queue.ErrDraining: "DRAINING", storage.ErrNoSpace: "OUT_OF_MEMORY"} {
		if errors.Is(err, its) {
			return &migrate.Refusal{Word: word}
		}
	}
	return err
}

// Place implements carry.Here.
func (h *here) Place(ctx context.Context, key string, j *migrate.Job) (migrate.Copy, error) {
	ctx = context.WithoutCancel(ctx)
	put, err := h.queue.PutTagged(ctx, queue.NewJob{Tube: j.Tube, Pri: j.Pri, Delay: hide, TTR: j.TTR, Body: j.Body}, &tube.Tags{
		Key: key, OnDuplicate: tube.Keep, Rules: tube.Rules{KeyTTL: migrate.KeyTTL, HasKeyTTL: true},
	})
	switch {
	case err != nil:
		return migrate.Copy{}, refusal(err)
	case put.Result == tube.PutNew:
		return migrate.Copy{ID: put.ID, Hidden: true}, nil
	case put.State == tube.Gone:
		return migrate.Copy{ID: put.ID}, nil
	}
	return h.copy(ctx, put.ID)
}

// copy says whether a job is still hidden.
func (h *here) copy(ctx context.Context, id uint64) (migrate.Copy, error) {
	s, err := h.queue.JobStats(ctx, id)
	if errors.Is(err, queue.ErrNotFound) {
		return migrate.Copy{ID: id}, nil
	}
	if err != nil {
		return migrate.Copy{}, err
	}
	return migrate.Copy{ID: id, Hidden: s.State == tube.Delayed && s.TimeLeft > migrate.StillHidden}, nil
}

// Find implements carry.Here.
func (h *here) Find(ctx context.Context, name, key string) (migrate.Copy, error) {
	ctx = context.WithoutCancel(ctx)
	j, err := h.queue.PeekKey(ctx, name, key)
	if errors.Is(err, queue.ErrNotFound) {
		return migrate.Copy{}, nil
	}
	if err != nil {
		return migrate.Copy{}, err
	}
	return h.copy(ctx, j.ID)
}

// Reveal implements carry.Here.
func (h *here) Reveal(ctx context.Context, id uint64, j *migrate.Job) error {
	ops := []storage.Op{{Kind: storage.Reschedule, ID: id, In: j.Left(time.Now()).Round(time.Millisecond)}}
	if j.State == migrate.Buried {
		ops = []storage.Op{
			{Kind: storage.Move, Move: tube.ReserveJob, Holder: h.holder, ID: id},
			{Kind: storage.Move, Move: tube.Bury, Holder: h.holder, ID: id, Pri: j.Pri},
		}
	}
	answers, err := h.queue.Do(context.WithoutCancel(ctx), ops...)
	if err != nil {
		return err
	}
	for i := range answers {
		a := &answers[i]
		a.Buffer.Release()
		if a.Err != nil {
			return a.Err
		}
		if a.NotFound {
			return queue.ErrNotFound
		}
	}
	return nil
}

// Remove implements carry.Here.
func (h *here) Remove(ctx context.Context, ids ...uint64) error {
	for _, id := range ids {
		err := h.queue.Delete(context.WithoutCancel(ctx), h.holder, id)
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Notes implements carry.Here.
func (h *here) Notes(ctx context.Context) (notes []migrate.Written, err error) {
	ctx = context.WithoutCancel(ctx)
	for cursor := ""; ; {
		jobs, next, err := h.queue.ListJobs(ctx, migrate.NotesTube, tube.Delayed, tube.MaxListed, cursor)
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			j, err := h.queue.Peek(ctx, jobs[i].ID)
			if errors.Is(err, queue.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if n, err := migrate.ParseNote(string(j.Body)); err == nil {
				notes = append(notes, migrate.Written{Note: n, ID: j.ID})
			}
		}
		if cursor = next; cursor == "" {
			return notes, nil
		}
	}
}
