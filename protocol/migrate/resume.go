package migrate

import (
	"context"
	"errors"
	"fmt"
)

// Resume completes the moves that an earlier Migrator had begun when it ended, and returns how many
// jobs it has moved. No other Migrator may be working between the two servers: see Target.Lock.
func (c *Migrator) Resume(ctx context.Context) (n int, err error) {
	notes, err := c.target.Notes(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the notes of an earlier move: %w", err)
	}
	for i := range notes {
		if notes[i].From != c.from {
			continue
		}
		done, err := c.resume(ctx, &notes[i])
		if err != nil {
			return n, err
		}
		if done == Migrated {
			n++
		}
	}
	return n, nil
}

// resume completes the move of one job.
func (c *Migrator) resume(ctx context.Context, w *StoredNote) (Outcome, error) {
	f, err := c.source.jobStats(w.Old)
	if err == nil && f.tube == w.Tube {
		w.Tags, w.lessTags, w.saved = f.tags, f.leftTags, f.saved
	}
	switch {
	case errors.Is(err, errNotFound):
		return c.resumeGone(ctx, w)
	case err != nil:
		return None, err
	case f.pri == w.Mark && f.tube == w.Tube:
		return c.resumeMarked(ctx, w, &f)
	case f.tube == w.Tube && f.state == "ready" && w.State != Ready && f.kicks == w.Kick:
		// It died when it had reserved the job to mark it, so the job became ready.
		if err := c.read(w); err != nil {
			return None, err
		}
		state, due := w.State, w.Due
		switch err := c.claim(&w.Note, &f); {
		case errors.Is(err, errNotFound):
			return Lost, c.target.Remove(ctx, w.ID)
		case err != nil:
			return None, err
		}
		w.State, w.Due = state, due
		return c.finish(ctx, w)
	}
	return None, c.target.Remove(ctx, w.ID) // nothing was done to it, or it is another job
}

// resumeGone completes the move of a job that is gone on the source.
func (c *Migrator) resumeGone(ctx context.Context, w *StoredNote) (Outcome, error) {
	copied, err := c.target.Find(ctx, w.Key, &w.Job)
	if err != nil {
		return None, err
	}
	if copied.ID == 0 {
		return None, c.target.Remove(ctx, w.ID)
	}
	if w.Checkpoint, err = c.target.Checkpoint(ctx, w.ID); err != nil {
		return None, err
	}
	return Migrated, c.reveal(ctx, w, copied)
}

// resumeMarked continues with a job that has its mark on the source.
func (c *Migrator) resumeMarked(ctx context.Context, w *StoredNote, f *jobStats) (Outcome, error) {
	if f.state != "buried" { // somebody has kicked it since
		pri, ttr, state, due := w.Pri, w.TTR, w.State, w.Due
		switch err := c.claim(&w.Note, f); {
		case errors.Is(err, errNotFound):
			copied, err := c.target.Find(ctx, w.Key, &w.Job)
			return Lost, errors.Join(err, c.dropCopy(ctx, w.ID, copied))
		case err != nil:
			return None, err
		}
		w.Pri, w.TTR, w.State, w.Due = pri, ttr, state, due
	}
	if err := c.read(w); err != nil {
		return None, err
	}
	return c.finish(ctx, w)
}

// read reads the body of a job.
func (c *Migrator) read(w *StoredNote) error {
	id, body, err := c.source.fetch(fmt.Sprint("peek ", w.Old))
	if err == nil && id == 0 {
		err = errNotFound
	}
	w.Body = body
	return err
}
