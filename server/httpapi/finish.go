package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has what the holder of a lease does with its job.

// JobPath is the job in a path.
type JobPath struct {
	ID uint64 `path:"id"`
}

// noOutput documents an answer without a body.
type noOutput struct{}

// finishInput documents a delete.
type finishInput struct {
	JobPath
	Lease string `query:"lease" maxLength:"32" doc:"without it, a job that nobody holds is removed"`
}

// releaseInput documents a release.
type releaseInput struct {
	JobPath
	Lease    string `query:"lease" required:"true" maxLength:"32"`
	Priority uint32 `query:"priority" doc:"as before unless said"`
	Delay    string `query:"delay" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"whole seconds; with 0, or unless said, the rules of the job say when it is ready"`
}

// buryInput documents a bury.
type buryInput struct {
	JobPath
	Lease    string `query:"lease" required:"true" maxLength:"32"`
	Priority uint32 `query:"priority" doc:"as before unless said"`
}

// touchInput documents a touch.
type touchInput struct {
	JobPath
	Lease string `query:"lease" required:"true" maxLength:"32"`
}

func (d *Door) finish(w http.ResponseWriter, r *http.Request) {
	d.moveLeased(w, r, tube.Delete)
}

func (d *Door) release(w http.ResponseWriter, r *http.Request) {
	d.moveLeased(w, r, tube.Release)
}

func (d *Door) bury(w http.ResponseWriter, r *http.Request) {
	d.moveLeased(w, r, tube.Bury)
}

func (d *Door) touch(w http.ResponseWriter, r *http.Request) {
	d.moveLeased(w, r, tube.Touch)
}

// moveLeased answers a request that moves one job.
func (d *Door) moveLeased(w http.ResponseWriter, r *http.Request, move tube.Move) {
	op, err := readMove(r, move)
	if err == nil {
		err = d.keepPriority(r, &op)
	}
	if err == nil {
		err = d.moveOne(r.Context(), op)
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// moveOne carries out a move.
func (d *Door) moveOne(ctx context.Context, op storage.Op) error {
	answers, err := d.queue.Do(context.WithoutCancel(ctx), op)
	switch {
	case err != nil:
		return err
	case answers[0].Err != nil:
		return answers[0].Err
	case answers[0].NotFound && op.Holder == tube.LeaseHolder:
		return newProblem(http.StatusNotFound, "NOT_FOUND", "there is no such job, or that is not its present lease")
	case answers[0].NotFound:
		return newProblem(http.StatusNotFound, "NOT_FOUND", "there is no such job, or somebody holds it")
	}
	return nil
}

// readMove returns the operation that a request asks for.
func readMove(r *http.Request, move tube.Move) (op storage.Op, err error) {
	id, err := readID(r)
	if err != nil {
		return op, err
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return op, invalid("the query is broken: %v", err)
	}
	var lease *string
	if query.Has("lease") {
		lease = &query["lease"][0]
	} else if move != tube.Delete {
		return op, invalid("lease: it is missing")
	}
	if op, err = moveOf(move, id, lease); err != nil {
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
	return op, nil
}

// readID returns the job in a path.
func readID(r *http.Request) (uint64, error) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return 0, invalid("id: %q is not a number of a job", r.PathValue("id"))
	}
	return id, nil
}

// moveOf returns the operation that moves a job on behalf of whoever has its lease; nil: of
// somebody who has none.
func moveOf(move tube.Move, id uint64, lease *string) (storage.Op, error) {
	op := storage.Op{Kind: storage.Move, Move: move, ID: id}
	if lease == nil {
		return op, nil
	}
	if *lease == "" || len(*lease) > protocol.MaxLease {
		return op, invalid("lease: it has not 1 to %d characters", protocol.MaxLease)
	}
	// A token of other digits is none of ours, as is 0: then it is not the job's.
	token, err := strconv.ParseUint(*lease, 10, 64)
	if err != nil {
		token = 0
	}
	op.Holder, op.Args = tube.LeaseHolder, &storage.Args{Lease: token}
	return op, nil
}

// keepPriority gives a release or a bury that does not say a priority that of the job.
func (d *Door) keepPriority(r *http.Request, op *storage.Op) error {
	if op.Move != tube.Release && op.Move != tube.Bury || url.Values(r.URL.Query()).Has("priority") {
		return nil
	}
	s, err := d.queue.JobStats(context.WithoutCancel(r.Context()), op.ID)
	if err != nil {
		return err
	}
	op.Pri = s.Pri
	return nil
}
