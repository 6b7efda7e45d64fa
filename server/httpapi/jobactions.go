package httpapi

import (
	"context"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/storage"
)

type actionInput struct {
	Body struct {
		Action   string   `json:"action" enum:"delete,kick,bury,reschedule,priority,move"`
		IDs      []uint64 `json:"ids" minItems:"1" maxItems:"1000" nullable:"false"`
		In       string   `json:"in,omitempty" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"for reschedule: time until the jobs are ready"`
		Priority *uint32  `json:"priority,omitempty" doc:"for priority: the new priority"`
		To       string   `json:"to,omitempty" maxLength:"200" doc:"for move: the other tube; the jobs get new ids and their failures are counted from 0"`
	}
}

type actionOutput struct{ Body actionInfo }

// actionInfo is the result of an action.
type actionInfo struct {
	Done   int      `json:"done" doc:"the number of jobs that were changed"`
	Missed []uint64 `json:"missed" nullable:"false" doc:"jobs that do not exist, that are in another state, or for which the user lacks the right"`
}

// act applies an action to many jobs, one after the other.
func (api *API) act(ctx context.Context, in *actionInput) (*actionOutput, error) {
	do, err := api.actionOf(ctx, in)
	if err != nil {
		return nil, err
	}
	info := actionInfo{Missed: []uint64{}}
	for _, id := range in.Body.IDs {
		err := api.checkAction(ctx, id)
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

// actionOf returns a function that applies an action to one job.
func (api *API) actionOf(ctx context.Context, in *actionInput) (func(context.Context, uint64) error, error) {
	switch in.Body.Action {
	case "delete":
		return func(ctx context.Context, id uint64) error { return api.queue.Delete(ctx, api.queue.NewHolder(), id) }, nil
	case "kick":
		return api.queue.KickJob, nil
	case "bury":
		return api.buryJob, nil
	case "move":
		if !protocol.ValidName([]byte(in.Body.To)) {
			return nil, invalidTube("to", in.Body.To)
		}
		for _, need := range []Right{access.Admin, access.Put} {
			if err := checkOtherTube(ctx, need, in.Body.To); err != nil {
				return nil, err
			}
		}
		return func(ctx context.Context, id uint64) error { return api.moveJob(ctx, id, in.Body.To) }, nil
	case "reschedule":
		wait, err := parseDuration(in.Body.In)
		if err != nil {
			return nil, invalid("in: %v", err)
		}
		return func(ctx context.Context, id uint64) error {
			return api.do(ctx, storage.Op{Kind: storage.Reschedule, ID: id, In: time.Duration(wait)})
		}, nil
	}
	if in.Body.Priority == nil {
		return nil, invalid("priority: it is missing")
	}
	return func(ctx context.Context, id uint64) error {
		return api.do(ctx, storage.Op{Kind: storage.SetPriority, ID: id, Pri: *in.Body.Priority})
	}, nil
}

// buryJob buries a job that is not reserved. It reserves the job and buries it at once. If it
// cannot be buried, the job is given back.
func (api *API) buryJob(ctx context.Context, id uint64) error {
	s, err := api.queue.JobStats(ctx, id)
	if err != nil {
		return err
	}
	holder := api.queue.NewHolder()
	defer api.queue.ReleaseAll(context.WithoutCancel(ctx), holder)
	if _, err := api.queue.ReserveJob(ctx, holder, id); err != nil {
		return err
	}
	return api.queue.Bury(ctx, holder, id, s.Pri)
}
