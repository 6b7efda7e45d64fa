package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"redstalk/server/access"
	"redstalk/server/jobbatch"
	"redstalk/server/limits"
	"redstalk/server/queue"
	"redstalk/server/schedule"
	"redstalk/storage"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// service has what all operations share. Each operation is a method of it.
type service struct {
	queue     *queue.Queue
	schedules *schedule.Service
	batches   *jobbatch.Service
	access    *access.Access // nil means that everybody may do everything
	log       *slog.Logger
	audit     *slog.Logger       // nil: nobody wants to know
	faults    telemetry.Throttle // of log messages about unexpected errors

	aclMu  sync.Mutex      // guards acl and endACL
	acl    context.Context // ends when the users file changes
	endACL context.CancelCauseFunc

	waiting  *limits.Shares // requests that wait for a job
	reserves waitingReserves
	streams  *limits.Shares // open event streams
	searches *searchQueue   // searches, running and queued

	sampler *sampler // for /v1/events
	poller  *poller  // for /v1/watch and the charts
}

// fail answers a request with the problem document of an error.
func (svc *service) fail(w http.ResponseWriter, r *http.Request, err error) {
	svc.problem(err, r.Method, r.URL.Path).Write(w)
}

// problem returns the problem document of an error. It logs an unexpected error.
func (svc *service) problem(err error, method, path string) *problem {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		svc.faults.Error(svc.log, "a request could not be answered", "method", method, "path", path, "err", err)
	}
	return p
}

// do executes an operation whose answer has only an error.
func (svc *service) do(ctx context.Context, op storage.Op) error {
	answers, err := svc.queue.Do(ctx, op)
	if err != nil {
		return err
	}
	return answerError(&answers[0])
}

// answerError returns the error of an answer of the store. A missing job is queue.ErrNotFound.
func answerError(a *storage.Answer) error {
	if a.Err == nil && a.NotFound {
		return queue.ErrNotFound
	}
	return a.Err
}

// putFailure returns why a put failed. It is nil if on_duplicate=keep returned another job.
func putFailure(a *storage.Answer) error {
	switch {
	case a.Err != nil:
		return a.Err
	case a.Outcome == tube.PutDuplicate:
		p := newProblem(http.StatusConflict, "DUPLICATE", "the job %d has the key", a.ID)
		p.ID = a.ID
		return p
	case a.Outcome == tube.PutSealed:
		return newProblem(http.StatusConflict, "BATCH_SEALED", "the batch is sealed: it gets no more members")
	}
	return nil
}
