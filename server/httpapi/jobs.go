package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// jobChanges are the operations of administrators on single jobs.
func (svc *service) jobChanges() []*row {
	return []*row{
		typed(svc, Operation{"POST", "/v1/jobs/{id}/kick", rightOf(protocol.KickJob), OfJob}, doc("kickJob", "Make a buried or delayed job ready", 204, ""), svc.kickJob),
		typed(svc, Operation{"POST", "/v1/jobs/{id}/replay", rightOf(protocol.ReplayJob), OfJob}, doc("replayJob", "Give a job another chance that has failed for good", 204,
			"A job in a dead-letter tube goes back to the tube that it came from, where it is ready and has a new id. Any other job becomes ready, if it is buried. Failures and deliveries count from zero."), svc.replayJob),
		typed(svc, Operation{"POST", "/v1/jobs/{id}/reschedule", rightOf(protocol.Reschedule), OfJob}, doc("reschedule", "Change when a ready or delayed job is due", 204, ""), svc.reschedule),
		typed(svc, Operation{"POST", "/v1/jobs/{id}/priority", rightOf(protocol.SetPriority), OfJob}, doc("setPriority", "Change the priority of a job that is not reserved", 204, ""), svc.setPriority),
	}
}

type jobOutput struct{ Body jobWithBody }

func (svc *service) job(ctx context.Context, in *JobPath) (*jobOutput, error) {
	answers, err := svc.queue.Do(ctx, storage.Op{Kind: storage.JobStats, ID: in.ID}, storage.Op{Kind: storage.Peek, ID: in.ID})
	if err != nil {
		return nil, err
	}
	for i := range answers {
		if err := answerError(&answers[i]); err != nil {
			return nil, err
		}
	}
	out := &jobOutput{withBody(answers[0].Job, answers[1].Body)}
	out.Body.Holder = svc.holderOf(ctx, answers[0].Job)
	return out, nil
}

type keyInput struct {
	Key string `query:"key" required:"true" minLength:"1" maxLength:"128" pattern:"^[!-~]+$"`
}

type keyOutput struct{ Body foundJobs }

// foundJobs are the jobs with a key.
type foundJobs struct {
	Jobs []JobInfo `json:"jobs" nullable:"false"`
}

// jobsByKey searches all tubes that the user may read for jobs with a key.
func (svc *service) jobsByKey(ctx context.Context, in *keyInput) (*keyOutput, error) {
	found, err := svc.queue.FindKey(ctx, in.Key)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return nil, err
	}
	all := foundJobs{Jobs: []JobInfo{}}
	for i := range found {
		if len(visible(ctx, []string{found[i].Tube})) > 0 {
			all.Jobs = append(all.Jobs, infoOf(&found[i]))
		}
	}
	return &keyOutput{all}, nil
}

// keyPath is a tube and a key in a path.
type keyPath struct {
	TubePath
	Key string `path:"key" minLength:"1" maxLength:"128" pattern:"^[!-~]+$"`
}

func (svc *service) jobByKey(ctx context.Context, in *keyPath) (*jobOutput, error) {
	job, err := svc.queue.PeekKey(ctx, in.Tube, in.Key)
	if err != nil {
		return nil, err
	}
	return svc.job(ctx, &JobPath{job.ID})
}

func (svc *service) deleteByKey(ctx context.Context, in *keyPath) (*noOutput, error) {
	return nil, svc.queue.DeleteKey(ctx, in.Tube, in.Key)
}

func (svc *service) kickJob(ctx context.Context, in *JobPath) (*noOutput, error) {
	return nil, svc.queue.KickJob(ctx, in.ID)
}

func (svc *service) replayJob(ctx context.Context, in *JobPath) (*noOutput, error) {
	if err := svc.checkReplay(ctx, in.ID); err != nil {
		return nil, err
	}
	return nil, svc.queue.Replay(ctx, in.ID)
}

// checkReplay returns an error if the user may not send a job back to the tube that it came from.
func (svc *service) checkReplay(ctx context.Context, id uint64) error {
	u := access.UserIn(ctx)
	if u == nil || u.Everywhere() == access.All {
		return nil
	}
	s, err := svc.queue.JobStats(ctx, id)
	if err == nil && !u.MaySendBack(s.Tube, s.Home()) {
		err = forbidden()
	}
	return err
}

type rescheduleInput struct {
	JobPath
	In string `query:"in" required:"true" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"time until the job is ready" example:"10m"`
}

func (svc *service) reschedule(ctx context.Context, in *rescheduleInput) (*noOutput, error) {
	wait, err := parseDuration(in.In)
	if err != nil {
		return nil, invalid("in: %v", err)
	}
	return nil, svc.do(ctx, storage.Op{Kind: storage.Reschedule, ID: in.ID, In: time.Duration(wait)})
}

type priorityInput struct {
	JobPath
	Priority uint64 `query:"priority" required:"true" maximum:"4294967295"`
}

func (svc *service) setPriority(ctx context.Context, in *priorityInput) (*noOutput, error) {
	return nil, svc.do(ctx, storage.Op{Kind: storage.SetPriority, ID: in.ID, Pri: uint32(in.Priority)})
}

type actionInput struct {
	Body struct {
		Action string   `json:"action" enum:"delete,kick,replay,bury,reschedule,priority,move"`
		IDs    []uint64 `json:"ids" minItems:"1" maxItems:"1000" nullable:"false"`
		ActionValues
	}
}

// ActionValues are the values of an action.
type ActionValues struct {
	In       string  `json:"in,omitempty" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"for reschedule: time until the jobs are ready"`
	Priority *uint32 `json:"priority,omitempty" doc:"for priority: the new priority"`
	To       string  `json:"to,omitempty" maxLength:"200" doc:"for move: the other tube; the jobs get new ids and their failures are counted from 0"`
}

type actionOutput struct{ Body actionInfo }

// actionInfo is the result of an action.
type actionInfo struct {
	Done   int      `json:"done" doc:"the number of jobs that were changed"`
	Missed []uint64 `json:"missed" nullable:"false" doc:"jobs that do not exist, that are in another state, or for which the user lacks the right"`
}

// act applies an action to many jobs, one after the other.
func (svc *service) act(ctx context.Context, in *actionInput) (*actionOutput, error) {
	do, err := svc.actionOf(ctx, in)
	if err != nil {
		return nil, err
	}
	svc.noteJobs(ctx, in.Body.Action, in.Body.IDs...)
	if note := actIn(ctx); note != nil {
		note.values = in.Body.ActionValues
	}
	info := actionInfo{Missed: []uint64{}}
	for _, id := range in.Body.IDs {
		err := svc.checkAction(ctx, id)
		if err == nil {
			err = do(ctx, id)
		}
		switch problem := endsAction(err); {
		case err == nil:
			info.Done++
		case problem:
			return nil, err
		default:
			info.Missed = append(info.Missed, id)
		}
	}
	return &actionOutput{info}, nil
}

// checkAction returns an error if the user lacks the right admin on the tube of a job.
func (svc *service) checkAction(ctx context.Context, id uint64) error {
	u := access.UserIn(ctx)
	if u == nil || u.Everywhere()&access.Admin != 0 {
		return nil
	}
	return svc.requireOnJob(ctx, u, access.Admin, id)
}

// endsAction reports whether an error ends the action for all further jobs.
func endsAction(err error) bool {
	return err != nil && !errors.Is(err, queue.ErrNotFound) && !errors.Is(err, errForbidden)
}

// actionOf returns a function that applies an action to one job.
func (svc *service) actionOf(ctx context.Context, in *actionInput) (func(context.Context, uint64) error, error) {
	switch in.Body.Action {
	case "delete":
		return func(ctx context.Context, id uint64) error { return svc.queue.Delete(ctx, svc.queue.NewHolder(), id) }, nil
	case "kick":
		return svc.queue.KickJob, nil
	case "replay":
		return func(ctx context.Context, id uint64) error {
			if svc.checkReplay(ctx, id) != nil {
				return queue.ErrNotFound
			}
			return svc.queue.Replay(ctx, id)
		}, nil
	case "bury":
		return svc.buryJob, nil
	case "move":
		if !protocol.ValidName([]byte(in.Body.To)) {
			return nil, invalidTube("to", in.Body.To)
		}
		for _, need := range []Right{access.Admin, access.Put} {
			if err := checkOtherTube(ctx, need, in.Body.To); err != nil {
				return nil, err
			}
		}
		return func(ctx context.Context, id uint64) error { return svc.moveJob(ctx, id, in.Body.To) }, nil
	case "reschedule":
		wait, err := parseDuration(in.Body.In)
		if err != nil {
			return nil, invalid("in: %v", err)
		}
		return func(ctx context.Context, id uint64) error {
			return svc.do(ctx, storage.Op{Kind: storage.Reschedule, ID: id, In: time.Duration(wait)})
		}, nil
	}
	if in.Body.Priority == nil {
		return nil, invalid("priority: it is missing")
	}
	return func(ctx context.Context, id uint64) error {
		return svc.do(ctx, storage.Op{Kind: storage.SetPriority, ID: id, Pri: *in.Body.Priority})
	}, nil
}

// buryJob buries a job that is not reserved, whatever limits say. It reserves the job and buries it at once. If it
// cannot be buried, the job is given back.
func (svc *service) buryJob(ctx context.Context, id uint64) error {
	s, err := svc.queue.JobStats(ctx, id)
	if err != nil {
		return err
	}
	holder := svc.queue.NewHolder()
	defer svc.queue.ReleaseAll(context.WithoutCancel(ctx), holder)
	if _, err := svc.queue.Seize(ctx, holder, id); err != nil {
		return err
	}
	return svc.queue.Bury(ctx, holder, id, s.Pri)
}

// hideFor is the delay of a job that is to be buried in its new tube, so that no worker gets it
// before it is buried.
const hideFor = time.Minute

// moveJob moves a job that is not reserved, whatever limits say, to another tube, where it has the same state and a
// new id. It reserves the job, puts the copy, and then deletes the job: if it fails in between,
// there are two jobs, never none. A job that cannot be moved stays as it was.
func (svc *service) moveJob(ctx context.Context, id uint64, to string) error {
	s, err := svc.queue.JobStats(ctx, id)
	if err != nil {
		return err
	}
	if s.Tube == to || s.State == tube.Reserved || checkRedirect(ctx, s.Tube, to) != nil {
		return queue.ErrNotFound
	}
	ctx = context.WithoutCancel(ctx) // a move that has begun is completed
	holder := svc.queue.NewHolder()
	defer svc.queue.ReleaseAll(ctx, holder)
	job, err := svc.queue.Seize(ctx, holder, id)
	if err != nil {
		return err
	}
	newID, err := svc.putCopy(ctx, s, job.Body, to)
	if err != nil {
		return errors.Join(err, svc.restore(ctx, holder, s))
	}
	if err := svc.queue.Delete(ctx, holder, id); err != nil {
		return err
	}
	if s.State != tube.Buried {
		return nil
	}
	if err := svc.buryJob(ctx, newID); !errors.Is(err, queue.ErrNotFound) {
		return err
	}
	return nil // not found: somebody has already deleted or reserved the copy
}

// putCopy puts a copy of a job into another tube. If the key is taken there, it returns
// queue.ErrNotFound.
func (svc *service) putCopy(ctx context.Context, s *tube.JobStats, body []byte, to string) (id uint64, err error) {
	op := storage.Op{Kind: storage.Put, Tube: to, Pri: s.Pri, TTR: s.TTR, Body: body}
	tags := new(tube.Tags)
	if s.Metadata != nil {
		if home := s.Home(); home == "" || home == to { // else they do not apply
			tags.Rules = s.Metadata.Rules
		}
		tags.Group, tags.Occurrence = s.Metadata.Group, s.Metadata.Occurrence
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
	if s.Metadata != nil && s.Metadata.Expires != 0 { // counted from when the copy is due
		tags.Expire = tube.LifetimeOf(max((s.ExpiresIn() - tags.Delay).Truncate(time.Millisecond), time.Millisecond))
	}
	if s.Metadata != nil || tags.HasDelay {
		op.Args = &storage.Args{Tags: tags}
	}
	answers, err := svc.queue.Do(ctx, op)
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
func (svc *service) restore(ctx context.Context, holder tube.Holder, s *tube.JobStats) error {
	if s.State == tube.Buried {
		return svc.queue.Bury(ctx, holder, s.ID, s.Pri)
	}
	seconds := (max(s.TimeLeft, 0) + time.Second - 1) / time.Second
	if s.State != tube.Delayed {
		seconds = 0
	}
	return svc.queue.Release(ctx, holder, s.ID, tube.Terms{Pri: s.Pri, Delay: uint32(seconds)})
}
