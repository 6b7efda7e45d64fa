package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has the operations of a lease holder: delete, release, bury and touch.

// finishInput documents a delete.
type finishInput struct {
	JobPath
	Lease string `query:"lease" maxLength:"32" doc:"without a lease, deletes a job that is not reserved"`
}

// releaseInput documents a release.
type releaseInput struct {
	JobPath
	Lease    string `query:"lease" required:"true" maxLength:"32"`
	Priority uint32 `query:"priority" doc:"the default is the priority of the job"`
	Delay    string `query:"delay" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"whole seconds; with 0 or without it, the retry rules of the job apply"`
	Reason   string `query:"reason" maxLength:"512" doc:"why the job has failed"`
	Failure  string `query:"failure" enum:"no" doc:"no: it counts neither as a failure nor as a delivery; not with a reason"`
}

// buryInput documents a bury.
type buryInput struct {
	JobPath
	Lease    string `query:"lease" required:"true" maxLength:"32"`
	Priority uint32 `query:"priority" doc:"the default is the priority of the job"`
	Reason   string `query:"reason" maxLength:"512" doc:"why the job is buried"`
}

// touchInput documents a touch.
type touchInput struct {
	JobPath
	Lease    string `query:"lease" required:"true" maxLength:"32"`
	Progress string `query:"progress" maxLength:"256" doc:"how far the job is, shown to people; empty: nothing is shown any more"`
}

func (svc *service) finish(w http.ResponseWriter, r *http.Request) {
	svc.moveLeased(w, r, tube.Delete)
}

func (svc *service) release(w http.ResponseWriter, r *http.Request) {
	svc.moveLeased(w, r, tube.Release)
}

func (svc *service) bury(w http.ResponseWriter, r *http.Request) {
	svc.moveLeased(w, r, tube.Bury)
}

func (svc *service) touch(w http.ResponseWriter, r *http.Request) {
	svc.moveLeased(w, r, tube.Touch)
}

// moveLeased handles a request for one job.
func (svc *service) moveLeased(w http.ResponseWriter, r *http.Request, move tube.Move) {
	op, err := readMove(r, move)
	if err == nil {
		err = svc.keepPriority(r, &op)
	}
	if err == nil && move == tube.Delete && op.Holder != tube.LeaseHolder {
		svc.noteJobs(r.Context(), "delete", op.ID)
	}
	if err == nil {
		err = svc.doMove(r.Context(), op)
	}
	if err != nil {
		svc.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// doMove executes a move.
func (svc *service) doMove(ctx context.Context, op storage.Op) error {
	answers, err := svc.queue.Do(context.WithoutCancel(ctx), op)
	switch {
	case err != nil:
		return err
	case answers[0].Err != nil:
		return answers[0].Err
	case isNotKept(&answers[0]):
		return queue.ErrNotKept
	case answers[0].NotFound && op.Holder == tube.LeaseHolder:
		return newProblem(http.StatusNotFound, "NOT_FOUND", "there is no such job, or this is not its current lease")
	case answers[0].NotFound:
		return newProblem(http.StatusNotFound, "NOT_FOUND", "there is no such job, or it is reserved")
	}
	return nil
}

// readMove parses a request for one job.
func readMove(r *http.Request, move tube.Move) (op storage.Op, err error) {
	id, err := readID(r)
	if err != nil {
		return op, err
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return op, invalid("the query cannot be parsed: %v", err)
	}
	var lease *string
	if query.Has("lease") {
		lease = &query["lease"][0]
	} else if move != tube.Delete {
		return op, invalid("lease: it is missing")
	}
	if op, err = moveOp(move, id, lease, holderName(r.Context())); err != nil {
		return op, err
	}
	if query.Has("delay") {
		if op.Delay, err = parseSeconds("delay", query.Get("delay")); err != nil {
			return op, err
		}
	}
	if query.Has("priority") {
		if op.Pri, err = parseUint32(query.Get("priority")); err != nil {
			return op, invalid("priority: %v", err)
		}
	}
	if query.Has("progress") {
		if op.Args.Progress, err = readProgress(query.Get("progress")); err != nil {
			return op, err
		}
	}
	return op, addReason(&op, query)
}

// addReason adds the reason of a release or bury, or makes a release one that is no failure.
func addReason(op *storage.Op, query url.Values) error {
	if query.Has("reason") {
		reason := query.Get("reason")
		if !protocol.ValidReason(reason) {
			return invalid("reason: it must have 1 to %d bytes of text without control characters", protocol.MaxReason)
		}
		op.Args.Reason = reason
	}
	switch {
	case !query.Has("failure"):
	case query.Get("failure") != "no":
		return invalid("failure: it can only be no")
	case op.Args.Reason != "":
		return invalid("failure: there is already a reason")
	default:
		op.Move = tube.Snooze
	}
	return nil
}

// moveOp returns the operation that moves a job for the holder of a lease, with this name. If lease is nil, the
// caller holds no lease.
func moveOp(move tube.Move, id uint64, lease *string, holder string) (storage.Op, error) {
	op := storage.Op{Kind: storage.Move, Move: move, ID: id}
	if lease == nil {
		return op, nil
	}
	if *lease == "" || len(*lease) > protocol.MaxLease {
		return op, invalid("lease: it must have 1 to %d characters", protocol.MaxLease)
	}
	// A token that is not a number is never valid, and neither is 0.
	token, err := strconv.ParseUint(*lease, 10, 64)
	if err != nil {
		token = 0
	}
	op.Holder, op.Args = tube.LeaseHolder, &storage.Args{Lease: token, By: holder}
	return op, nil
}

// holderName returns the name under which a request holds a job, for its record: that of its user; "" if there is none.
func holderName(ctx context.Context) string { return queue.HolderName(userName(ctx)) }

// isNotKept reports whether an answer says that no record of the job would be kept.
func isNotKept(a *storage.Answer) bool { return a.Err == nil && a.Result != nil && a.Result.NotKept }

// keepPriority sets the priority of a release or bury without one to that of the job.
func (svc *service) keepPriority(r *http.Request, op *storage.Op) error {
	if op.Move != tube.Release && op.Move != tube.Snooze && op.Move != tube.Bury || url.Values(r.URL.Query()).Has("priority") {
		return nil
	}
	s, err := svc.queue.JobStats(context.WithoutCancel(r.Context()), op.ID)
	if err != nil {
		return err
	}
	op.Pri = s.Pri
	return nil
}
