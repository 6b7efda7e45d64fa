package httpapi

import (
	"cmp"
	"context"
	"errors"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage"
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
	out := &jobOutput{withBody(ctx, answers[0].Job, answers[1].Body)}
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

// jobsByKey searches all tubes whose jobs the user may list for jobs with a key.
func (svc *service) jobsByKey(ctx context.Context, in *keyInput) (*keyOutput, error) {
	found, err := svc.queue.FindKey(ctx, in.Key)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return nil, err
	}
	all := foundJobs{Jobs: []JobInfo{}}
	for i := range found {
		if len(visible(ctx, []string{found[i].Tube})) > 0 {
			all.Jobs = append(all.Jobs, infoOf(ctx, &found[i]))
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

// againInput is a kick or replay of a job.
type againInput struct {
	JobPath
	KeepOption
}

func (svc *service) kickJob(ctx context.Context, in *againInput) (*noOutput, error) {
	return nil, svc.queue.KickJob(ctx, in.ID, in.KeepCheckpoint)
}

func (svc *service) replayJob(ctx context.Context, in *againInput) (*noOutput, error) {
	if err := svc.checkReplay(ctx, in.ID); err != nil {
		return nil, err
	}
	return nil, svc.queue.Replay(ctx, in.ID, in.KeepCheckpoint)
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
	To       string  `json:"to,omitempty" maxLength:"200" doc:"for move: the other tube; the jobs get new ids"`
	KeepOption
}

type actionOutput struct{ Body actionInfo }

// actionInfo is the result of an action.
type actionInfo struct {
	Done   int      `json:"done" doc:"the number of jobs that were changed"`
	Missed []uint64 `json:"missed" nullable:"false" doc:"jobs that do not exist, that are in another state, or for which the user lacks the right"`
}

// act applies an action to many jobs, one after the other.
func (svc *service) act(ctx context.Context, in *actionInput) (*actionOutput, error) {
	do, err := svc.actionOf(ctx, in.Body.Action, &in.Body.ActionValues)
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
func (svc *service) actionOf(ctx context.Context, action string, values *ActionValues) (func(context.Context, uint64) error, error) {
	switch action {
	case "delete":
		return func(ctx context.Context, id uint64) error { return svc.queue.Delete(ctx, svc.queue.NewHolder(), id) }, nil
	case "kick":
		return func(ctx context.Context, id uint64) error { return svc.queue.KickJob(ctx, id, values.KeepCheckpoint) }, nil
	case "replay":
		return func(ctx context.Context, id uint64) error {
			if svc.checkReplay(ctx, id) != nil {
				return queue.ErrNotFound
			}
			return svc.queue.Replay(ctx, id, values.KeepCheckpoint)
		}, nil
	case "bury":
		return svc.buryJob, nil
	case "move":
		if !protocol.ValidName([]byte(values.To)) {
			return nil, invalidTube("to", values.To)
		}
		for _, need := range []Right{access.Admin, access.Put} {
			if err := checkOtherTube(ctx, need, values.To); err != nil {
				return nil, err
			}
		}
		return func(ctx context.Context, id uint64) error { return svc.moveJob(ctx, id, values.To) }, nil
	case "reschedule":
		wait, err := parseDuration(values.In)
		if err != nil {
			return nil, invalid("in: %v", err)
		}
		return func(ctx context.Context, id uint64) error {
			return svc.do(ctx, storage.Op{Kind: storage.Reschedule, ID: id, In: time.Duration(wait)})
		}, nil
	}
	if values.Priority == nil {
		return nil, invalid("priority: it is missing")
	}
	return func(ctx context.Context, id uint64) error {
		return svc.do(ctx, storage.Op{Kind: storage.SetPriority, ID: id, Pri: *values.Priority})
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

// moveJob moves a job that is not reserved, whatever limits say, to another tube. If its key is taken there, it stays
// where it is.
func (svc *service) moveJob(ctx context.Context, id uint64, to string) error {
	s, err := svc.queue.JobStats(ctx, id)
	if err != nil {
		return err
	}
	if checkRedirect(ctx, s.Tube, to) != nil {
		return queue.ErrNotFound
	}
	if s.Metadata != nil && s.Metadata.Key != "" {
		if _, err := svc.queue.PeekKey(ctx, to, s.Metadata.Key); !errors.Is(err, queue.ErrNotFound) {
			return cmp.Or(err, queue.ErrNotFound)
		}
	}
	return svc.queue.MoveJob(ctx, id, to)
}
