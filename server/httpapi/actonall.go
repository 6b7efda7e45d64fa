package httpapi

import (
	"context"
	"slices"

	"redstalk/server/access"
	"redstalk/storage"
	"redstalk/tube"
)

// This file applies an action to all jobs that match a filter, in steps.

type actOnAllInput struct {
	Body struct {
		Action string `json:"action" enum:"delete,kick,replay,move"`
		FilterOptions
		To string `json:"to,omitempty" maxLength:"200" doc:"for move: the other tube; the jobs get new ids"`
		KeepOption
		Limit  uint64 `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"1000" doc:"how many jobs this request changes at most; there can be more, but less than twice as many"`
		Cursor string `json:"cursor,omitempty" maxLength:"300" doc:"next of the previous answer"`
	}
}

type actOnAllOutput struct{ Body actOnAllInfo }

// actOnAllInfo is a step of an action.
type actOnAllInfo struct {
	Done     int           `json:"done" doc:"the number of jobs that were changed"`
	Missed   int           `json:"missed" doc:"the number of jobs that match, but have just changed their state, are held by a worker, or for which the user lacks the right"`
	Counts   []ReasonCount `json:"counts" nullable:"false" doc:"how many of both have each reason, tube by tube"`
	Examined int           `json:"examined" doc:"the number of jobs that were examined"`
	Next     string        `json:"next" doc:"the cursor of the next request; empty if all jobs were examined"`
}

// actedOn are the states of the jobs that an action changes.
var actedOn = map[string][]tube.State{
	"delete": {tube.Buried, tube.Delayed, tube.Ready}, "move": {tube.Buried, tube.Delayed, tube.Ready},
	"replay": {tube.Buried, tube.Delayed, tube.Ready}, "kick": {tube.Buried, tube.Delayed},
}

func (svc *service) actOnAll(ctx context.Context, in *actOnAllInput) (*actOnAllOutput, error) {
	endSearch, err := svc.searches.admit(ctx, clientIn(ctx))
	if err != nil {
		return nil, err
	}
	defer endSearch()
	one, err := svc.actionOf(ctx, in.Body.Action, &ActionValues{To: in.Body.To, KeepOption: in.Body.KeepOption})
	if err != nil {
		return nil, err
	}
	w, err := svc.newWalk(ctx, &in.Body.FilterOptions, access.List|access.Admin)
	if err != nil {
		return nil, err
	}
	w.perCall = min(w.perCall, int(in.Body.Limit))
	w.page = min(w.page, w.perCall)
	w.states = slices.DeleteFunc(w.states, func(s tube.State) bool { return !slices.Contains(actedOn[in.Body.Action], s) })
	if in.Body.Action == "move" {
		w.names = slices.DeleteFunc(w.names, func(name string) bool { return name == in.Body.To })
	}
	var info actOnAllInfo
	counts := make(map[ReasonCount]int) // with 0 as Count
	w.full = func() bool { return info.Done >= int(in.Body.Limit) }
	w.take = func(ctx context.Context, found []match) error {
		for i := range found {
			counts[ReasonCount{Tube: found[i].job.Tube, Reason: reasonOf(found[i].job)}]++
		}
		ids := svc.idsFor(ctx, in.Body.Action, found)
		noteMatches(ctx, in, ids, found)
		done, err := svc.actOnSome(ctx, in, one, ids)
		info.Done, info.Missed = info.Done+done, info.Missed+len(found)-done
		return err
	}
	info.Next, err = w.run(ctx, in.Body.Cursor)
	info.Counts = countsOf(counts)
	if info.Examined = w.examined; err != nil && info.Done > 0 {
		err = partialError{err, info.Done}
	}
	return &actOnAllOutput{info}, err
}

// idsFor returns the ids of the jobs that the user may act on so, and that the action is for.
func (svc *service) idsFor(ctx context.Context, action string, found []match) (ids []uint64) {
	u := access.UserIn(ctx)
	for i := range found {
		job := found[i].job
		if action == "replay" && (job.State != tube.Buried && job.Home() == "" || u != nil && !u.MaySendBack(job.Tube, job.Home())) {
			continue
		}
		ids = append(ids, job.ID)
	}
	return ids
}

// noteMatches adds jobs to what the audit log says of the request.
func noteMatches(ctx context.Context, in *actOnAllInput, ids []uint64, found []match) {
	note := actIn(ctx)
	if note == nil || len(ids) == 0 {
		return
	}
	note.verb, note.values, note.count = in.Body.Action, in.Body, note.count+len(ids)
	note.ids = append(note.ids, ids[:min(len(ids), maxAuditedJobs-len(note.ids))]...)
	if name := found[0].job.Tube; !slices.Contains(note.tubes, name) {
		note.tubes = append(note.tubes, name)
	}
}

// actOnSome applies an action to jobs of one page, and returns how many were changed. one is for actions that are more than one operation
// of the store.
func (svc *service) actOnSome(ctx context.Context, in *actOnAllInput, one func(context.Context, uint64) error, ids []uint64) (done int, err error) {
	if in.Body.Action == "move" {
		for _, id := range ids {
			switch err := one(ctx, id); {
			case err == nil:
				done++
			case endsAction(err):
				return done, err
			}
		}
		return done, nil
	}
	if len(ids) == 0 {
		return 0, nil
	}
	ops := make([]storage.Op, len(ids))
	for i, id := range ids {
		ops[i] = svc.opOf(in, id)
	}
	answers, err := svc.queue.Do(ctx, ops...)
	for i := range answers {
		if answers[i].Err != nil {
			return done, answers[i].Err
		}
		if !answers[i].NotFound {
			done++
		}
	}
	return done, err
}

// opOf returns the operation of an action on a job.
func (svc *service) opOf(in *actOnAllInput, id uint64) storage.Op {
	keep := storage.KeepingCheckpoint(in.Body.KeepCheckpoint)
	switch in.Body.Action {
	case "kick":
		return storage.Op{Kind: storage.Move, Move: tube.KickJob, ID: id, Args: keep}
	case "replay":
		return storage.Op{Kind: storage.Replay, ID: id, Args: keep}
	}
	return storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: svc.queue.NewHolder(), ID: id}
}
