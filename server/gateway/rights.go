package gateway

import (
	"context"
	"errors"
	"net/http"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/tube"
)

// This file checks rights, if there is a file of users: then the context of a request has
// the user who sends it, see access.Protect. What a request needs is in the table of
// operations of package access.

var (
	// ErrForbidden: the user of a request lacks a right.
	ErrForbidden = errors.New("the user lacks a right")

	// ErrTooFast refuses a put beyond the user's limits.
	ErrTooFast = errors.New("the user has put more than the limits allow")
)

// Check returns ErrForbidden if the user of a request lacks the rights that an operation
// needs on a tube.
func Check(ctx context.Context, operation, tube string) error {
	need, _ := access.NeedOf(operation)
	if u := access.UserIn(ctx); u != nil && !u.May(need, tube) {
		return ErrForbidden
	}
	return nil
}

// CheckPut is Check for a put of that size, which it counts, into a tube, and later into the
// dead-letter tube ("": none). It returns ErrTooFast if the put is beyond the user's limits.
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

// checkAny returns ErrForbidden if the user of a request has no right on any tube.
func checkAny(ctx context.Context) error {
	if u := access.UserIn(ctx); u != nil && u.Anywhere() == access.Nothing {
		return ErrForbidden
	}
	return nil
}

// checkJob is Check for a job that is named by its id. If the user has no right at all on
// its tube, it returns queue.ErrNotFound.
func checkJob(ctx context.Context, operation string, s *tube.JobStats) error {
	if !mayKnowOf(ctx, s) {
		return queue.ErrNotFound
	}
	return Check(ctx, operation, s.Tube)
}

// mayKnowOf reports whether the user of a request may know that a job exists.
func mayKnowOf(ctx context.Context, s *tube.JobStats) bool {
	u := access.UserIn(ctx)
	return u == nil || u.On(s.Tube) != access.Nothing
}

// Refuse answers a request that fails because of the rights or the limits of its user. It
// returns false if err is another error.
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
