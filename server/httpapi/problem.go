package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/storage"
)

// The words of problems that the beanstalk protocol has no word for.
const (
	wordTooMany   = "TOO_MANY"  // 429: others wait, or listen, already
	wordForbidden = "FORBIDDEN" // 403

	wordUnauthorized = "UNAUTHORIZED" // 401
	wordUnsupported  = "UNSUPPORTED"  // 405, 415: the method or the content type
	wordTimeout      = "TIMED_OUT"    // 408: the body did not come in time
	wordBadFormat    = "BAD_FORMAT"   // 400, 422
	wordInternal     = "INTERNAL_ERROR"
)

// problem is a serving.Problem that huma can write, too.
type problem struct {
	httpserve.Problem

	// ID is the job that has the key already: only with DUPLICATE.
	ID uint64 `json:"id,omitempty"`

	// Done is how many jobs a kick, flush or move had been done with, at least, when it failed.
	Done int `json:"done,omitempty"`
}

// partlyDone is why an operation on many jobs ended when it had been done with some of them.
type partlyDone struct {
	error
	jobs int
}

func (e partlyDone) Unwrap() error { return e.error }

// GetStatus implements huma.StatusError.
func (p *problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *problem) ContentType(string) string { return httpserve.ProblemType }

// GetHeaders implements huma.HeadersError.
func (p *problem) GetHeaders() http.Header {
	h := make(http.Header)
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	return h
}

// Write answers a request.
func (p *problem) Write(w http.ResponseWriter) { p.WriteWith(w, p) }

// newProblem returns a problem whose detail is a format with its arguments.
func newProblem(status int, code, format string, args ...any) *problem {
	return &problem{Problem: *httpserve.NewProblem(status, code, fmt.Sprintf(format, args...))}
}

// invalid is the problem that a value is not allowed.
func invalid(format string, args ...any) *problem {
	return newProblem(http.StatusUnprocessableEntity, wordBadFormat, format, args...)
}

// retryAfter is when it is worth to try again, in seconds: when the instance drains, or has
// many waiting requests, and when the store is away.
const retryAfter = 2

// refusals are errors that clients may meet.
var refusals = []struct {
	err    error
	status int
	code   string
	detail string
}{
	{queue.ErrNotFound, http.StatusNotFound, "NOT_FOUND", ""},
	{queue.ErrTooBig, http.StatusRequestEntityTooLarge, "JOB_TOO_BIG", ""},
	{queue.ErrForbidden, http.StatusForbidden, "FORBIDDEN", "this server may not push there"},
	{queue.ErrDraining, http.StatusServiceUnavailable, "DRAINING", "this instance takes in no jobs at present"},
	{storage.ErrNoSpace, http.StatusInsufficientStorage, "OUT_OF_MEMORY", "the store has no room, or the tube has reached its quota"},
	{storage.ErrUnavailable, http.StatusServiceUnavailable, wordInternal, "the store is not available; what was asked for may have been done or not"},
	{storage.ErrClosed, http.StatusServiceUnavailable, wordInternal, "this instance is ending"},
	{queue.ErrClosed, http.StatusServiceUnavailable, wordInternal, "this instance is ending"},
	{context.Canceled, http.StatusServiceUnavailable, wordInternal, "the request was given up"},
	{os.ErrDeadlineExceeded, http.StatusRequestTimeout, wordTimeout, "the body did not come in time"},
}

// problemOf returns what a client is told of an error.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return newProblem(http.StatusRequestEntityTooLarge, "JOB_TOO_BIG", "the body has more than %d bytes", tooLong.Limit)
	}
	partly, _ := errors.AsType[partlyDone](err)
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			p := newProblem(r.status, r.code, "%s", r.detail)
			if r.status == http.StatusServiceUnavailable {
				p.RetryAfter = retryAfter
			}
			p.Done = partly.jobs
			return p
		}
	}
	return newProblem(http.StatusInternalServerError, wordInternal, "")
}

// init has huma make problems of ours. What it finds wrong with a request is not allowed.
func init() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		var all []string
		for _, err := range errs {
			if err != nil {
				all = append(all, describe(err))
			}
		}
		if len(all) == 0 {
			all = []string{msg}
		}
		code := wordBadFormat
		if status >= http.StatusInternalServerError {
			code = wordInternal
		}
		return newProblem(status, code, "%s", strings.Join(all, "; "))
	}
}

// describe writes what huma has found wrong, with where it is.
func describe(err error) string {
	var d *huma.ErrorDetail
	if !errors.As(err, &d) {
		return err.Error()
	}
	at := d.Location
	for _, of := range []string{"body.", "query.", "path."} {
		at = strings.TrimPrefix(at, of)
	}
	return at + ": " + d.Message
}
