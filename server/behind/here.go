package behind

import (
	"context"
	"errors"
	"time"

	"redstalk/protocol/carry"
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
const hide = uint32(carry.HideFor / time.Second)

// Lock implements carry.Here. The lock is a job that is reserved.
func (h *here) Lock(ctx context.Context, from string) error {
	ctx = context.WithoutCancel(ctx)
	put, err := h.queue.PutTagged(ctx, queue.NewJob{Tube: carry.NotesTube, Delay: hide, TTR: 1<<32 - 1}, &tube.Tags{Key: "lock-" + from, OnDuplicate: tube.Keep})
	if err != nil {
		return refusal(err)
	}
	_, err = h.queue.ReserveJob(ctx, h.holder, put.ID)
	if errors.Is(err, queue.ErrNotFound) {
		return carry.ErrBusy
	}
	return err
}

// Close implements carry.Here.
func (h *here) Close() error { return h.queue.Leave(context.Background(), h.holder) }

// Write implements carry.Here.
func (h *here) Write(ctx context.Context, n *carry.Note) (uint64, error) {
	id, err := h.queue.Put(context.WithoutCancel(ctx), queue.NewJob{Tube: carry.NotesTube, Delay: hide, TTR: 1, Body: []byte(n.String())})
	return id, refusal(err)
}

// refusal makes a carry.Refusal of an error that says that a job is not wanted.
func refusal(err error) error {
	for its, word := range map[error]string{queue.ErrTooBig: "JOB_TOO_BIG", queue.ErrDraining: "DRAINING", storage.ErrNoSpace: "OUT_OF_MEMORY"} {
		if errors.Is(err, its) {
			return &carry.Refusal{Word: word}
		}
	}
	return err
}

// Place implements carry.Here.
func (h *here) Place(ctx context.Context, key string, j *carry.Job) (carry.Copy, error) {
	ctx = context.WithoutCancel(ctx)
	put, err := h.queue.PutTagged(ctx, queue.NewJob{Tube: j.Tube, Pri: j.Pri, Delay: hide, TTR: j.TTR, Body: j.Body}, &tube.Tags{
		Key: key, OnDuplicate: tube.Keep, Rules: tube.Rules{KeyTTL: carry.KeyTTL, HasKeyTTL: true},
	})
	switch {
	case err != nil:
		return carry.Copy{}, refusal(err)
	case put.Result == tube.PutNew:
		return carry.Copy{ID: put.ID, Hidden: true}, nil
	case put.State == tube.Gone:
		return carry.Copy{ID: put.ID}, nil
	}
	return h.copy(ctx, put.ID)
}

// copy says whether a job is still hidden.
func (h *here) copy(ctx context.Context, id uint64) (carry.Copy, error) {
	s, err := h.queue.JobStats(ctx, id)
	if errors.Is(err, queue.ErrNotFound) {
		return carry.Copy{ID: id}, nil
	}
	if err != nil {
		return carry.Copy{}, err
	}
	return carry.Copy{ID: id, Hidden: s.State == tube.Delayed && s.TimeLeft > carry.StillHidden}, nil
}

// Find implements carry.Here.
func (h *here) Find(ctx context.Context, name, key string) (carry.Copy, error) {
	ctx = context.WithoutCancel(ctx)
	j, err := h.queue.PeekKey(ctx, name, key)
	if errors.Is(err, queue.ErrNotFound) {
		return carry.Copy{}, nil
	}
	if err != nil {
		return carry.Copy{}, err
	}
	return h.copy(ctx, j.ID)
}

// Reveal implements carry.Here.
func (h *here) Reveal(ctx context.Context, id uint64, j *carry.Job) error {
	ops := []storage.Op{{Kind: storage.Reschedule, ID: id, In: j.Left(time.Now()).Round(time.Millisecond)}}
	if j.State == carry.Buried {
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
func (h *here) Notes(ctx context.Context) (notes []carry.Written, err error) {
	ctx = context.WithoutCancel(ctx)
	for cursor := ""; ; {
		jobs, next, err := h.queue.ListJobs(ctx, carry.NotesTube, tube.Delayed, tube.MaxListed, cursor)
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
			if n, err := carry.ParseNote(string(j.Body)); err == nil {
				notes = append(notes, carry.Written{Note: n, ID: j.ID})
			}
		}
		if cursor = next; cursor == "" {
			return notes, nil
		}
	}
}
