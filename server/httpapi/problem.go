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
	"redstalk/server/schedule"
	"redstalk/storage"
)

// The codes of problems for which the beanstalk protocol has no word.
const (
	codeTooMany   = "TOO_MANY"  // 429: a limit for concurrent requests is reached
	codeForbidden = "FORBIDDEN" // 403

	codeUnauthorized = "UNAUTHORIZED" // 401
	codeUnsupported  = "UNSUPPORTED"  // 405, 415: the method or the content type
	codeTimeout      = "TIMED_OUT"    // 408: the body did not arrive in time
	codeBadFormat    = "BAD_FORMAT"   // 400, 422
	codeInternal     = "INTERNAL_ERROR"
)

// problem is an httpserve.Problem that huma can write as well.
type problem struct {
	httpserve.Problem

	// ID is the job that already has the key. Only DUPLICATE has it.
	ID uint64 `json:"id,omitempty"`

	// Done is the least number of jobs that a kick, flush or move had processed when it failed.
	Done int `json:"done,omitempty"`
}

// GetStatus implements huma.StatusError.
func (p *problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *problem) GetHeaders() http.Header {
	h := make(http.Header)
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	return h
}

// ContentType implements huma.ContentTypeFilter.
func (p *problem) ContentType(string) string { return httpserve.ProblemType }

// Write answers a request with the problem.
func (p *problem) Write(w http.ResponseWriter) { p.WriteWith(w, p) }

// newProblem returns a problem whose detail is formatted as by fmt.Sprintf.
func newProblem(status int, code, format string, args ...any) *problem {
	return &problem{Problem: *httpserve.NewProblem(status, code, fmt.Sprintf(format, args...))}
}

// invalid returns the problem for a value that is not allowed.
func invalid(format string, args ...any) *problem {
	return newProblem(http.StatusUnprocessableEntity, codeBadFormat, format, args...)
}

// retryAfter is the Retry-After of answers, in seconds, while the instance drains, while a
// limit is reached, and while the store is unavailable.
const retryAfter = 2

// tooMany returns the problem for a limit that is reached.
func tooMany(format string, args ...any) *problem {
	p := newProblem(http.StatusTooManyRequests, codeTooMany, format, args...)
	p.RetryAfter = retryAfter
	return p
}

// partialError is the error of an operation on many jobs that had processed some of them.
type partialError struct {
	error
	jobs int
}

func (e partialError) Unwrap() error { return e.error }

// knownErrors are the errors that have a problem of their own.
var knownErrors = []struct {
	err    error
	status int
	code   string
	detail string
}{
	{queue.ErrNotFound, http.StatusNotFound, "NOT_FOUND", ""},
	{queue.ErrNotKept, http.StatusConflict, "NOT_KEPT", "the job has no keep: no record of it is kept"},
	{queue.ErrTooBig, http.StatusRequestEntityTooLarge, "JOB_TOO_BIG", ""},
	{queue.ErrForbidden, http.StatusForbidden, "FORBIDDEN", "this server does not allow pushes to that URL"},
	{queue.ErrDraining, http.StatusServiceUnavailable, "DRAINING", "this instance is draining and accepts no jobs"},
	{storage.ErrQuota, http.StatusInsufficientStorage, "OUT_OF_MEMORY", "the tube has reached its quota of jobs or bytes"},
	{storage.ErrNoSpace, http.StatusInsufficientStorage, "OUT_OF_MEMORY", "the store is full"},
	{storage.ErrUnavailable, http.StatusServiceUnavailable, codeInternal, "the store is not available; the request may or may not have taken effect"},
	{storage.ErrClosed, http.StatusServiceUnavailable, codeInternal, "this instance is shutting down"},
	{queue.ErrClosed, http.StatusServiceUnavailable, codeInternal, "this instance is shutting down"},
	{context.Canceled, http.StatusServiceUnavailable, codeInternal, "the request was canceled"},
	{os.ErrDeadlineExceeded, http.StatusRequestTimeout, codeTimeout, "the body did not arrive in time"},
}

// problemOf returns the problem document that a client gets for an error.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return newProblem(http.StatusRequestEntityTooLarge, "JOB_TOO_BIG", "the body has more than %d bytes", tooLong.Limit)
	}
	if wrong, ok := errors.AsType[*schedule.FieldError](err); ok && !errors.Is(err, queue.ErrTooBig) {
		return invalid("%s: %v", fieldName(wrong.Field), wrong.Err)
	}
	if peer, ok := errors.AsType[*queue.PeerError](err); ok {
		p := newProblem(http.StatusServiceUnavailable, codeInternal, "%v", peer)
		p.RetryAfter = retryAfter
		return p
	}
	partly, _ := errors.AsType[partialError](err)
	for _, r := range knownErrors {
		if errors.Is(err, r.err) {
			p := newProblem(r.status, r.code, "%s", r.detail)
			if r.status == http.StatusServiceUnavailable {
				p.RetryAfter = retryAfter
			}
			p.Done = partly.jobs
			return p
		}
	}
	return newProblem(http.StatusInternalServerError, codeInternal, "")
}

// fieldName returns the name in JSON of what is the tag of a schedule in the beanstalk protocol.
func fieldName(tag string) string {
	if tag == "jitter" {
		return "spread"
	}
	return strings.ReplaceAll(tag, "-", "_")
}

// init makes huma report its errors as problems of this package.
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
		code := codeBadFormat
		if status >= http.StatusInternalServerError {
			code = codeInternal
		}
		return newProblem(status, code, "%s", strings.Join(all, "; "))
	}
}

// describe formats an error of huma: where it is, and what is wrong.
func describe(err error) string {
	var d *huma.ErrorDetail
	if !errors.As(err, &d) {
		return err.Error()
	}
	at := d.Location
	if at == "body" && !strings.HasPrefix(d.Message, "expected ") { // what jsonProblem says has the place
		return d.Message
	}
	for _, of := range []string{"body.", "query.", "path."} {
		at = strings.TrimPrefix(at, of)
	}
	return at + ": " + d.Message
}
