package queue

import (
	"context"

	"redstalk/storage"
	"redstalk/tube"
)

// Each call of this file is one operation. If ctx ends first, the call returns its error,
// and the operation may or may not be carried out; see Do.
//
// A holder is a number from NewHolder. Only the holder of a reserved job can delete,
// release, bury or touch it. For a job that is not reserved, any number will do.

// NewJob is a job to be put.
type NewJob struct {
	Tube  string
	Pri   uint32 // 0 is the most urgent
	Delay uint32 // seconds
	TTR   uint32 // seconds; 0 counts as 1
	Body  []byte // the store keeps it without a copy

	// Envelope is how many bytes of Body a gateway has added, for PutTagged. They do not count
	// towards MaxJobSize.
	Envelope int
}

// Put puts a job and returns its id.
func (q *Queue) Put(ctx context.Context, j NewJob) (id uint64, err error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.Put, Tube: j.Tube, Pri: j.Pri, Delay: j.Delay, TTR: j.TTR, Body: j.Body})
	return a.ID, err
}

// ReserveJob reserves one job that is ready, delayed or buried. Whenever it returns an
// error, the holder has no job from this call.
func (q *Queue) ReserveJob(ctx context.Context, holder tube.Holder, id uint64) (Job, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: holder, ID: id})
	return jobIn(&a), err
}

// Seize is ReserveJob, whatever the limits of the job's group and tube say. It uses none of their
// tokens.
func (q *Queue) Seize(ctx context.Context, holder tube.Holder, id uint64) (Job, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.Move, Move: tube.Seize, Holder: holder, ID: id})
	return jobIn(&a), err
}

// Delete deletes a job.
func (q *Queue) Delete(ctx context.Context, holder tube.Holder, id uint64) error {
	return q.move(ctx, tube.Delete, holder, id, tube.Terms{})
}

// Release makes a reserved job ready again, or delayed.
func (q *Queue) Release(ctx context.Context, holder tube.Holder, id uint64, terms tube.Terms) error {
	return q.move(ctx, tube.Release, holder, id, terms)
}

// Bury sets a reserved job aside, with a new priority.
func (q *Queue) Bury(ctx context.Context, holder tube.Holder, id uint64, pri uint32) error {
	return q.move(ctx, tube.Bury, holder, id, tube.Terms{Pri: pri})
}

// Touch starts the TTR of a reserved job again.
func (q *Queue) Touch(ctx context.Context, holder tube.Holder, id uint64) error {
	return q.move(ctx, tube.Touch, holder, id, tube.Terms{})
}

// KickJob makes a buried or delayed job ready. It loses its checkpoint, unless that is to be kept.
func (q *Queue) KickJob(ctx context.Context, id uint64, keepCheckpoint bool) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.Move, Move: tube.KickJob, ID: id, Args: storage.KeepingCheckpoint(keepCheckpoint)})
	return err
}

func (q *Queue) move(ctx context.Context, m tube.Move, holder tube.Holder, id uint64, terms tube.Terms) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.Move, Move: m, Holder: holder, ID: id, Pri: terms.Pri, Delay: terms.Delay})
	return err
}

// Kick makes up to maxJobs jobs of a tube ready: buried ones, or if there are none, delayed
// ones. They lose their checkpoints, unless these are to be kept. It returns how many jobs it has kicked.
func (q *Queue) Kick(ctx context.Context, tube string, maxJobs uint32, keepCheckpoint bool) (int, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.Kick, Tube: tube, MaxJobs: maxJobs, Args: storage.KeepingCheckpoint(keepCheckpoint)})
	return a.Count, err
}

// Peek returns a job, whatever its state.
func (q *Queue) Peek(ctx context.Context, id uint64) (Job, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.Peek, ID: id})
	return jobIn(&a), err
}

// PeekHead returns the first job of a tube in a state, which must be ready, delayed or
// buried.
func (q *Queue) PeekHead(ctx context.Context, name string, state tube.State) (Job, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.PeekHead, Tube: name, State: state})
	return jobIn(&a), err
}

// Pause stops reserves from a tube for that many seconds; 0 ends a pause.
func (q *Queue) Pause(ctx context.Context, tube string, seconds uint32) error {
	_, err := q.doOne(ctx, storage.Op{Kind: storage.Pause, Tube: tube, Delay: seconds})
	return err
}

// Tubes returns the names of all tubes.
func (q *Queue) Tubes(ctx context.Context) ([]string, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.Tubes})
	return a.Names, err
}

// JobStats returns the stats of a job.
func (q *Queue) JobStats(ctx context.Context, id uint64) (*tube.JobStats, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.JobStats, ID: id})
	return a.Job, err
}

// TubeStats returns the stats of a tube.
func (q *Queue) TubeStats(ctx context.Context, name string) (*tube.TubeStats, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.TubeStats, Tube: name})
	if err != nil {
		return nil, err
	}
	return q.TubeStatsWith(a.TubeStats), nil
}

// Stats returns the stats of the server.
func (q *Queue) Stats(ctx context.Context) (*Stats, error) {
	a, err := q.doOne(ctx, storage.Op{Kind: storage.Stats})
	if err != nil {
		return nil, err
	}
	return q.StatsWith(a.Stats), nil
}

// ReleaseAll gives back everything that the holder has reserved, even if ctx has ended; in that
// case ReleaseAll does not wait for the result. The holder must not be used any more.
func (q *Queue) ReleaseAll(ctx context.Context, holder tube.Holder) error {
	answers, err := q.do(ctx, []storage.Op{{Kind: storage.ReleaseAll, Holder: holder}})
	if err != nil {
		return err
	}
	return failure(&answers[0])
}
