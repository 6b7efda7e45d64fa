package upstream

import (
	"context"
	"errors"
	"time"

	"redstalk/protocol"
	"redstalk/protocol/migrate"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// destination is the queue as the destination of a migration. A migration of a job is
// carried through once begun, so no call ends with its context.
type destination struct {
	queue  *queue.Queue
	holder tube.Holder
	lock   uint64 // the job that is the lock; 0: it has no lock
}

func newDestination(q *queue.Queue) *destination {
	return &destination{queue: q, holder: q.NewHolder()}
}

// hideDelay is the delay of hidden jobs, in seconds.
const hideDelay = uint32(migrate.HideFor / time.Second)

// Lock implements migrate.Target. The lock is a reserved job.
func (d *destination) Lock(ctx context.Context, from string) error {
	ctx = context.WithoutCancel(ctx)
	put, err := d.queue.PutTagged(ctx, queue.NewJob{Tube: migrate.NotesTube, Delay: hideDelay, TTR: 1<<32 - 1}, &tube.Tags{Key: "lock-" + from, OnDuplicate: tube.Keep})
	if err != nil {
		return refusalOf(err)
	}
	_, err = d.queue.ReserveJob(ctx, d.holder, put.ID)
	if errors.Is(err, queue.ErrNotFound) {
		return migrate.ErrBusy
	}
	if err == nil {
		d.lock = put.ID
	}
	return err
}

// Close implements migrate.Target. If the process is killed, the lock becomes a ready job, which the next
// process reserves.
func (d *destination) Close() error {
	if d.lock != 0 {
		d.Remove(context.Background(), d.lock) // if that fails it is released, as if the process were killed
	}
	return d.queue.ReleaseAll(context.Background(), d.holder)
}

// Write implements migrate.Target.
func (d *destination) Write(ctx context.Context, n *migrate.Note) (uint64, error) {
	id, err := d.queue.Put(context.WithoutCancel(ctx), queue.NewJob{Tube: migrate.NotesTube, Delay: hideDelay, TTR: 1, Body: []byte(n.String())})
	return id, refusalOf(err)
}

// SaveCheckpoint implements migrate.Target: the checkpoint of the job becomes that of the note.
func (d *destination) SaveCheckpoint(ctx context.Context, note uint64, data []byte) error {
	return d.saveHidden(ctx, note, 0, data)
}

// Checkpoint implements migrate.Target.
func (d *destination) Checkpoint(ctx context.Context, note uint64) ([]byte, error) {
	data, err := d.queue.Checkpoint(context.WithoutCancel(ctx), note)
	if errors.Is(err, queue.ErrNotFound) {
		return nil, nil
	}
	return data, err
}

// saveHidden saves the checkpoint of a hidden job or note. It stays hidden.
func (d *destination) saveHidden(ctx context.Context, id uint64, pri uint32, data []byte) error {
	return refusalOf(d.do(ctx, []storage.Op{
		{Kind: storage.Move, Move: tube.Seize, Holder: d.holder, ID: id},
		{Kind: storage.Move, Move: tube.SaveCheckpoint, Holder: d.holder, ID: id, Args: &storage.Args{Data: data}},
		{Kind: storage.Move, Move: tube.Snooze, Holder: d.holder, ID: id, Pri: pri, Delay: hideDelay},
	}))
}

// do carries out operations that must all be possible.
func (d *destination) do(ctx context.Context, ops []storage.Op) error {
	answers, err := d.queue.Do(context.WithoutCancel(ctx), ops...)
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

// refusalOf returns a migrate.Refusal for an error that says that a job is refused, and
// other errors unchanged.
func refusalOf(err error) error {
	for cause, word := range map[error]string{queue.ErrTooBig: "JOB_TOO_BIG", queue.ErrDraining: "DRAINING", storage.ErrNoSpace: "OUT_OF_MEMORY"} {
		if errors.Is(err, cause) {
			return &migrate.Refusal{Word: word}
		}
	}
	return err
}

// Place implements migrate.Target.
func (d *destination) Place(ctx context.Context, key string, j *migrate.Job) (migrate.Copy, error) {
	ctx = context.WithoutCancel(ctx)
	tags := tagsOf(j.Tags)
	own := tags.Key
	if own != "" {
		if c, free, err := d.placeWith(ctx, j, &tags); free || err != nil {
			return c, err
		}
	}
	tags.Key, tags.KeyTTL, tags.HasKeyTTL = key, migrate.KeyTTL, true
	c, _, err := d.placeWith(ctx, j, &tags)
	c.Less = own != ""
	return c, err
}

// placeWith puts a copy with these tags. If a job has the key, it returns that one; ok says whether
// the copy is new, or was put before and is still hidden.
func (d *destination) placeWith(ctx context.Context, j *migrate.Job, tags *tube.Tags) (c migrate.Copy, ok bool, err error) {
	put, err := d.queue.PutTagged(ctx, queue.NewJob{Tube: j.Tube, Pri: j.Pri, Delay: hideDelay, TTR: j.TTR, Body: j.Body}, tags)
	switch {
	case err != nil:
		return migrate.Copy{}, false, refusalOf(err)
	case put.Result == tube.PutNew:
		return migrate.Copy{ID: put.ID, Hidden: true}, true, nil
	case put.State == tube.Gone:
		return migrate.Copy{ID: put.ID}, false, nil
	}
	c, err = d.copyOf(ctx, put.ID, tags.Key, j)
	return c, c.Hidden, err
}

// tagsOf returns the tags of the copy of a job.
func tagsOf(t *protocol.Tags) tube.Tags {
	const ms = tube.Instant(time.Millisecond)
	tags := tube.Tags{OnDuplicate: tube.Keep}
	if t == nil {
		return tags
	}
	tags.Key, tags.Group, tags.Trace, tags.Reason = t.Key, t.Group, t.Trace, t.Reason
	tags.FailedAt, tags.ExpiresAt = tube.Instant(t.FailedAt)*ms, tube.Instant(t.ExpireAt)*ms
	tags.Rules = t.Rules
	for _, m := range t.Meta {
		tags.Meta = append(tags.Meta, tube.Meta(m))
	}
	return tags
}

// copyOf reports whether a job is still hidden. With the key of j itself it need not be its copy.
func (d *destination) copyOf(ctx context.Context, id uint64, key string, j *migrate.Job) (migrate.Copy, error) {
	s, err := d.queue.JobStats(ctx, id)
	if errors.Is(err, queue.ErrNotFound) {
		return migrate.Copy{ID: id}, nil
	}
	if err != nil {
		return migrate.Copy{}, err
	}
	own := j.Tags != nil && key == j.Tags.Key
	return migrate.Copy{ID: id, Hidden: s.State == tube.Delayed && s.TimeLeft > migrate.StillHidden && (!own || s.TTR == j.TTR)}, nil
}

// Find implements migrate.Target.
func (d *destination) Find(ctx context.Context, key string, j *migrate.Job) (migrate.Copy, error) {
	ctx = context.WithoutCancel(ctx)
	c, err := d.find(ctx, key, j)
	if err == nil && c.ID == 0 && j.Tags != nil && j.Tags.Key != "" {
		if c, err = d.find(ctx, j.Tags.Key, j); !c.Hidden {
			c = migrate.Copy{}
		}
	}
	return c, err
}

// find returns the job that has a key.
func (d *destination) find(ctx context.Context, key string, j *migrate.Job) (migrate.Copy, error) {
	job, err := d.queue.PeekKey(ctx, j.Tube, key)
	if errors.Is(err, queue.ErrNotFound) {
		return migrate.Copy{}, nil
	}
	if err != nil {
		return migrate.Copy{}, err
	}
	return d.copyOf(ctx, job.ID, key, j)
}

// Reveal implements migrate.Target. A copy whose checkpoint is not saved stays hidden.
func (d *destination) Reveal(ctx context.Context, id uint64, j *migrate.Job) error {
	if len(j.Checkpoint) > 0 {
		if err := d.saveHidden(ctx, id, j.Pri, j.Checkpoint); err != nil {
			return err
		}
	}
	ops := []storage.Op{{Kind: storage.Reschedule, ID: id, In: j.Left(time.Now()).Round(time.Millisecond)}}
	if j.State == migrate.Buried {
		ops = []storage.Op{
			{Kind: storage.Move, Move: tube.Seize, Holder: d.holder, ID: id},
			{Kind: storage.Move, Move: tube.Bury, Holder: d.holder, ID: id, Pri: j.Pri},
		}
	}
	return d.do(ctx, ops)
}

// Remove implements migrate.Target.
func (d *destination) Remove(ctx context.Context, ids ...uint64) error {
	for _, id := range ids {
		err := d.queue.Delete(context.WithoutCancel(ctx), d.holder, id)
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Notes implements migrate.Target. A note is ready if the server died in SaveCheckpoint.
func (d *destination) Notes(ctx context.Context) (notes []migrate.StoredNote, err error) {
	delayed, err := d.notesIn(context.WithoutCancel(ctx), tube.Delayed)
	if err != nil {
		return nil, err
	}
	ready, err := d.notesIn(context.WithoutCancel(ctx), tube.Ready)
	return append(delayed, ready...), err
}

// notesIn returns the notes in a state.
func (d *destination) notesIn(ctx context.Context, state tube.State) (notes []migrate.StoredNote, err error) {
	for cursor := ""; ; {
		jobs, next, err := d.queue.ListJobs(ctx, migrate.NotesTube, state, tube.MaxListed, cursor)
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			j, err := d.queue.Peek(ctx, jobs[i].ID)
			if errors.Is(err, queue.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if n, err := migrate.ParseNote(string(j.Body)); err == nil {
				notes = append(notes, migrate.StoredNote{Note: n, ID: j.ID})
			}
		}
		if cursor = next; cursor == "" {
			return notes, nil
		}
	}
}
