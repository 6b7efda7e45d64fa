package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// This file checks rights, if there is a users file. The guard checks the right in the row of
// the operation before the handler runs. The handler itself checks what only it knows, such as
// the right on a second tube. The user is in the context of the request.

// authorize reports whether the user of a request may call a row. If not, it answers the
// request.
func (svc *service) authorize(w http.ResponseWriter, r *http.Request, row *row) bool {
	u := access.UserIn(r.Context())
	if u == nil && row.local && !fromThisMachine(r) {
		newProblem(http.StatusForbidden, codeForbidden, "without a users file only clients on the server's machine may do that").Write(w)
		return false
	}
	if u == nil || u.Everywhere()&row.Right != 0 {
		return true
	}
	switch err := svc.checkRights(r, row, u); {
	case err == nil:
		return true
	case errors.Is(err, errForbidden):
		refuse(w, r, u, nil)
	default:
		svc.fail(w, r, err)
	}
	return false
}

// errForbidden is returned if a user lacks a right.
var errForbidden = errors.New("forbidden")

// checkRights returns errForbidden if a user who lacks the right on all tubes also lacks it on
// the tubes that a request names.
func (svc *service) checkRights(r *http.Request, row *row, u *access.User) error {
	need := row.Right
	if need == 0 {
		return requireUser(u)
	}
	switch row.Tube {
	case InPath:
		return requireOn(u, need, r.PathValue("tube"))
	case InQuery:
		query, _ := url.ParseQuery(r.URL.RawQuery) // row.checkQuery has checked it
		names := query["tube"]
		switch {
		case len(names) == 0 && row.Right == access.List:
			return requireAnywhere(u, need) // tubes without the right are left out of the answer
		case len(names) == 0:
			names = []string{tube.Default}
		}
		return requireOn(u, need, names...)
	case OfJob:
		if r.PathValue("id") == "" {
			return requireAny(u) // the ids are in the body
		}
		id, err := readID(r)
		if err != nil {
			return err
		}
		if row.ofRecord {
			return svc.requireOnRecord(r.Context(), u, need, id)
		}
		return svc.requireOnJob(r.Context(), u, need, id)
	case OfBatch:
		if u.OnBatch(u.WholeBatch(r.PathValue("batch")))&need == 0 {
			return errForbidden
		}
		return nil
	case Listed, OfSchedule:
		return requireAnywhere(u, need)
	}
	if row.Right == access.List {
		return requireAnywhere(u, need)
	}
	return errForbidden // this needs the right on all tubes
}

// requireOn returns errForbidden unless the user has the right on each of the tubes.
func requireOn(u *access.User, need access.Right, names ...string) error {
	for _, name := range names {
		if u.On(name)&need == 0 {
			return errForbidden
		}
	}
	return nil
}

// requireAnywhere returns errForbidden unless the user has the right on some tube.
func requireAnywhere(u *access.User, need access.Right) error {
	if u.Anywhere()&need == 0 {
		return errForbidden
	}
	return nil
}

// mayAnywhere reports whether the user of a request has a right on some tube.
func mayAnywhere(ctx context.Context, need Right) bool {
	u := access.UserIn(ctx)
	return u == nil || u.Anywhere()&need != 0
}

// requireAny returns errForbidden if the user has no right at all.
func requireAny(u *access.User) error { return requireAnywhere(u, access.All) }

// requireUser returns errForbidden for an unauthenticated client without any right.
func requireUser(u *access.User) error {
	if access.Status(u, nil) == http.StatusUnauthorized {
		return requireAny(u)
	}
	return nil
}

// requireOnJob is requireOn for the tube of a job. If the user has no right at all on that
// tube, the error is queue.ErrNotFound.
func (svc *service) requireOnJob(ctx context.Context, u *access.User, need access.Right, id uint64) error {
	if err := requireAny(u); err != nil {
		return err
	}
	s, err := svc.queue.JobStats(ctx, id)
	if err != nil {
		return err
	}
	return requireOnJobTube(u, need, s.Tube)
}

// requireOnJobTube is requireOnJob for a job whose tube is known.
func requireOnJobTube(u *access.User, need access.Right, name string) error {
	switch has := u.On(name); {
	case has == access.Nothing:
		return queue.ErrNotFound
	case has&need == 0:
		return errForbidden
	}
	return nil
}

// forbidden returns the problem for a missing right that only the handler knows of.
func forbidden() *problem {
	return newProblem(http.StatusForbidden, codeForbidden, "the user does not have the right to do this")
}

// checkOtherTube returns an error if the user lacks a right on the second tube of an
// operation. "" is no tube.
func checkOtherTube(ctx context.Context, need Right, name string) error {
	if u := access.UserIn(ctx); u != nil && name != "" && u.On(name)&need == 0 {
		return forbidden()
	}
	return nil
}

// checkRedirect returns an error if the user may not send the jobs of a tube to another tube,
// or out of the server (to is then "").
func checkRedirect(ctx context.Context, from, to string) error {
	if u := access.UserIn(ctx); u != nil && !u.MayRedirect(from, to) {
		return forbidden()
	}
	return nil
}

// checkPut returns an error if the user may not put such a job, or exceeds its rate limits.
func checkPut(ctx context.Context, op *storage.Op) error {
	u := access.UserIn(ctx)
	if u == nil {
		return nil
	}
	if op.Args != nil && op.Args.Tags != nil {
		if err := checkOtherTube(ctx, access.Put, op.Args.Tags.Dead); err != nil {
			return err
		}
		if err := checkBatches(u, op.Args.Tags); err != nil {
			return err
		}
	}
	if !u.MayPut(len(op.Body)) {
		return tooMany("the user has exceeded its rate limits for puts")
	}
	return nil
}

// checkBatches makes the names of the batches of a job whole, and returns an error if the user may not put that job.
func checkBatches(u *access.User, tags *tube.Tags) error {
	batch, after := u.WholeBatch(tags.Batch), u.WholeBatch(tags.After)
	tags.Batch, tags.After = batch, after
	for _, b := range []struct {
		field, name string
		may         bool
	}{{"batch", batch, u.MayJoin(batch, "")}, {afterField(tags.AfterAll), after, u.MayJoin("", after)}} {
		if b.name == "" {
			continue
		}
		if err := checkBatch(b.field, b.name); err != nil {
			return err
		}
		if !b.may {
			return newProblem(http.StatusForbidden, codeForbidden, "%s: %s", b.field, forbidden().Detail)
		}
	}
	return nil
}

// wholeBatch returns the whole name of what the user of a request calls a batch, or the problem if that is none.
func wholeBatch(ctx context.Context, field, name string) (string, error) {
	if u := access.UserIn(ctx); u != nil {
		name = u.WholeBatch(name)
	}
	return name, checkBatch(field, name)
}
