package gateway

import (
	"context"
	"errors"
	"net/http"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/tube"
)

// This file has who may do what, if there is a file of users: then the context of a request
// tells who sends it, see access.Protect. What a request needs follows from the operation of
// the table of package access that it is.

var (
	// ErrForbidden refuses what the user of a request has not the right to do.
	ErrForbidden = errors.New("the user lacks a right")

	// ErrTooFast refuses a put beyond the limits of the user.
	ErrTooFast = errors.New("the user has put more than the limits allow")
)

// Check returns ErrForbidden if the user of a request lacks what an operation needs on a
// tube.
func Check(ctx context.Context, operation, tube string) error {
	need, _ := access.NeedOf(operation)
	if u := access.UserIn(ctx); u != nil && !u.May(need, tube) {
		return ErrForbidden
	}
	return nil
}

// CheckPut is Check for a put of so many bytes, which it counts, into a tube, and later into
// that of dead jobs ("": none). It returns ErrTooFast if they are beyond the limits of the
// user.
func CheckPut(ctx context.Context, tube, dead string, bytes int) error {
	if err := Check(ctx, "put", tube); err != nil {
		return err
	}
	if dead != "" {
		if err := Check(ctx, "put", dead); err != nil {
			return err
		}
	}
	if u := access.UserIn(ctx); u != nil && !u.MayPut(bytes) {
		return ErrTooFast
	}
	return nil
}

// checkAny returns ErrForbidden if the user of a request may do nothing anywhere.
func checkAny(ctx context.Context) error {
	if u := access.UserIn(ctx); u != nil && u.Anywhere() == access.Nothing {
		return ErrForbidden
	}
	return nil
}

// checkJob is Check for a job that is named by its id. Where the user has no right at all
// there is no such job.
func checkJob(ctx context.Context, operation string, s *tube.JobStats) error {
	if !mayKnow(ctx, s) {
		return queue.ErrNotFound
	}
	return Check(ctx, operation, s.Tube)
}

// mayKnow reports whether the user of a request may know that there is a job.
func mayKnow(ctx context.Context, s *tube.JobStats) bool {
	u := access.UserIn(ctx)
	return u == nil || u.On(s.Tube) != access.Nothing
}

// Refuse answers a request that fails for the rights or the limits of its user. It returns
// false if err is another error.
func Refuse(w http.ResponseWriter, r *http.Request, err error) bool {
	switch {
	case errors.Is(err, ErrForbidden):
		access.Refuse(w, r, access.UserIn(r.Context()), nil)
	case errors.Is(err, ErrTooFast):
		access.Refuse(w, r, nil, access.ErrBusy)
	default:
		return false
	}
	return true
}
