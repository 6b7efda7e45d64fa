package queue

import (
	"cmp"
	"context"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// The calls of this file are the extensions: operations for which beanstalkd has no command.
// What jobs.go says about its calls holds for these too.

// PutTagged puts a job with tags, unless its key is taken: then the answer says which job
// has it.
func (q *Queue) PutTagged(ctx context.Context, j NewJob, tags *tube.Tags) (tube.PutAnswer, error) {
	err := cmp.Or(q.refusalOfPut(len(j.Body)-j.Envelope), ctx.Err())
	if err != nil {
		return tube.PutAnswer{}, err
	}
	op := storage.Op{Kind: storage.Put, Tube: j.Tube, Pri: j.Pri, Delay: j.Delay, TTR: j.TTR, Body: j.Body, Args: &storage.Args{Tags: tags}}
	answers, err := q.do(ctx, []storage.Op{op})
	if err != nil {
		return tube.PutAnswer{}, err
	}
	a := &answers[0]
	if err := failure(a); err != nil {
		return tube.PutAnswer{}, err
	}
	return tube.PutAnswer{Result: a.Outcome, ID: a.ID, State: a.State}, nil
}

// ReserveLease is Reserve without a connection: any caller who knows the lease of the job
// can finish it, with MoveLeased. Nothing is given back when a caller leaves; only the end
// of the TTR ends the lease.
func (q *Queue) ReserveLease(ctx context.Context, tubes []string, wait time.Duration) (Job, error) {
	return q.Reserve(ctx, tube.LeaseHolder, tubes, wait)
}

// MoveLeased applies a move to a job that is reserved by a lease: tube.Delete, Finish, Touch,
// SaveCheckpoint, Release or Bury. It returns ErrNotFound if lease is not the job's current lease.
func (q *Queue) MoveLeased(ctx context.Context, m tube.Move, id, lease uint64, terms tube.Terms) error {
	_, err := q.doOne(ctx, storage.Op{
		Kind: storage.Move, Move: m, Holder: tube.LeaseHolder, ID: id, Pri: terms.Pri, Delay: terms.Delay,
		Args: &storage.Args{Lease: lease, Reason: terms.Reason, By: terms.Holder, Data: terms.Data, Progress: terms.Progress},
	})
	return err
}

// Checkpoint returns the checkpoint of a job, which must not be changed; ErrNotFound if it has none.
func (q *Queue) Checkpoint(ctx context.Context, id uint64) ([]byte, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.GetCheckpoint, ID: id})
	return a.Body, err
}

// PeekKey returns the job of a tube that has a key, whatever its state.
func (q *Queue) PeekKey(ctx context.Context, tube, key string) (Job, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.PeekKey, Tube: tube, Args: &storage.Args{Key: key}})
	return jobIn(&a), err
}

// DeleteKey deletes the job of a tube that has a key, whoever holds it.
func (q *Queue) DeleteKey(ctx context.Context, tube, key string) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.DeleteKey, Tube: tube, Args: &storage.Args{Key: key}})
	return err
}

// FindKey returns the jobs of all tubes that have a key; ErrNotFound if there is none.
func (q *Queue) FindKey(ctx context.Context, key string) ([]tube.JobStats, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.FindKey, Args: &storage.Args{Key: key}})
	if err != nil {
		return nil, err
	}
	return a.Result.Jobs, nil
}

// SetPolicy sets the policy of a tube; nil removes it. The policy must not be changed any
// more. SetPolicy returns ErrForbidden if the policy pushes to a URL that is not allowed.
func (q *Queue) SetPolicy(ctx context.Context, name string, p *tube.Policy) error {
	defer q.PolicyChanged(name)
	_, err := q.doOne(ctx, storage.Op{Kind: storage.SetPolicy, Tube: name, Args: &storage.Args{Policy: p}})
	return err
}

// Policy returns the policy of a tube, which must not be changed; ErrNotFound if it has none.
func (q *Queue) Policy(ctx context.Context, name string) (*tube.Policy, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.GetPolicy, Tube: name})
	if err != nil {
		return nil, err
	}
	return a.Result.Policy, nil
}

// Policies returns the names of the tubes that have a policy, sorted.
func (q *Queue) Policies(ctx context.Context) ([]string, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.Policies})
	return a.Names, err
}

// ListJobs returns up to count jobs of a tube in a state, in the order in which they would
// come out, starting behind a cursor; "" is the beginning. next is the cursor for the
// following jobs, "" if there are none.
func (q *Queue) ListJobs(ctx context.Context, name string, s tube.State, count uint32, cursor string) (jobs []tube.JobStats, next string, err error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.ListJobs, Tube: name, State: s, MaxJobs: count, Args: &storage.Args{Cursor: cursor}})
	if err != nil {
		return nil, "", err
	}
	return a.Result.Jobs, a.Result.Cursor, nil
}

// Replay sends a dead letter back to the tube where it was exhausted, or kicks a buried job. It loses its checkpoint, unless that
// is to be kept. It returns ErrNotFound for other jobs, and for reserved ones.
func (q *Queue) Replay(ctx context.Context, id uint64, keepCheckpoint bool) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.Replay, ID: id, Args: storage.KeepingCheckpoint(keepCheckpoint)})
	return err
}

// Flush removes the jobs of a tube in a state, or with tube.Gone all ready, delayed and
// buried ones. It returns how many jobs it has removed.
func (q *Queue) Flush(ctx context.Context, name string, s tube.State) (int, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.Flush, Tube: name, State: s})
	return a.Count, err
}

// MoveJob moves a job to another tube, as MoveJobs does. It returns ErrNotFound if the job is reserved, or in that tube.
func (q *Queue) MoveJob(ctx context.Context, id uint64, to string) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.MoveJob, ID: id, Args: &storage.Args{To: to}})
	return err
}

// MoveJobs moves the first jobs of a tube in a state, up to count of them, to another tube.
// It returns how many jobs it has moved.
func (q *Queue) MoveJobs(ctx context.Context, from string, s tube.State, to string, count uint32) (int, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.MoveJobs, Tube: from, State: s, MaxJobs: count, Args: &storage.Args{To: to}})
	return a.Count, err
}
