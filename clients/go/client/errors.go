package client

import (
	"errors"
	"fmt"
)

// Errors that callers can test with [errors.Is].
var (
	// ErrUnknownOutcome means that a command was sent and its reply is not known: the
	// connection was lost, the context ended, or the server failed in the middle. The
	// command may have been carried out.
	ErrUnknownOutcome = errors.New("the outcome is unknown")

	// ErrUnavailable means that no server could be reached within the time that the client
	// waits for one. The command was not sent.
	ErrUnavailable = errors.New("no server is available")

	// ErrClosed means that the client was closed.
	ErrClosed = errors.New("the client is closed")

	// ErrUnsupported means that the server lacks a feature, as beanstalkd lacks keys. The
	// error is an [*UnsupportedError], which names it. Nothing was done.
	ErrUnsupported = errors.New("not supported by this server")

	// ErrNotFound means that there is no such job, key, tube or policy, or that the job is in a
	// state in which the command does not apply, or is no longer reserved by the caller.
	ErrNotFound = errors.New("not found")

	// ErrNotKept means that the job has no [Keep], nor has the policy of its tube: nothing is kept of it when it has ended.
	ErrNotKept = errors.New("no record of the job is kept")

	// ErrNoJob means that no job was ready within the time that a reserve waits.
	ErrNoJob = errors.New("no job is ready")

	// ErrDeadlineSoon means that a reserve was answered at once because a job that the same
	// connection holds is within a second of the end of its TTR.
	ErrDeadlineSoon = errors.New("a held job is close to the end of its TTR")

	// ErrDuplicate means that the key of a put with [FailIfTaken] is taken.
	ErrDuplicate = errors.New("the key is taken")

	// ErrBatchSealed means that the batch of a put is sealed: it gets no more members.
	ErrBatchSealed = errors.New("the batch is sealed")

	// ErrDraining means that no server accepts puts at present.
	ErrDraining = errors.New("the server is draining")

	// ErrTooBig means that the body, a result or a checkpoint exceeds the largest size that the server accepts.
	ErrTooBig = errors.New("the body is too big")

	// ErrOutOfMemory means that the server or the quota of a tube is full.
	ErrOutOfMemory = errors.New("out of memory, or the quota of the tube is used up")

	// ErrForbidden means that the user lacks a right, or that the server does not allow a
	// push to that target.
	ErrForbidden = errors.New("forbidden")

	// ErrUnauthorized means that the user or the secret is wrong.
	ErrUnauthorized = errors.New("the user or the secret is wrong")

	// ErrInvalid means that an argument is invalid: a tube's name, a tag, a size. Where the
	// client finds that, nothing was sent.
	ErrInvalid = errors.New("invalid argument")

	// ErrServer means that the server failed to carry out a command (INTERNAL_ERROR), usually
	// because its store did. For a command that changes something, the error is also
	// ErrUnknownOutcome.
	ErrServer = errors.New("the server failed")
)

// An UnsupportedError names the feature that the server lacks. It is an [ErrUnsupported].
type UnsupportedError struct {
	Feature string // such as "key"
}

func (e *UnsupportedError) Error() string { return e.Feature + ": " + ErrUnsupported.Error() }

// Is makes every UnsupportedError an ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// A notSentError wraps the reason why a command was not sent. It had no effect.
type notSentError struct{ err error }

func (e *notSentError) Error() string { return e.err.Error() }
func (e *notSentError) Unwrap() error { return e.err }

// A lostError wraps the reason why the reply to a command that was sent is not known.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// wordErrors has the errors of the replies that refuse a command.
var wordErrors = map[string]error{
	"NOT_FOUND":       ErrNotFound,
	"NOT_KEPT":        ErrNotKept,
	"TIMED_OUT":       ErrNoJob,
	"DEADLINE_SOON":   ErrDeadlineSoon,
	"DUPLICATE":       ErrDuplicate,
	"BATCH_SEALED":    ErrBatchSealed,
	"DRAINING":        ErrDraining,
	"JOB_TOO_BIG":     ErrTooBig,
	"OUT_OF_MEMORY":   ErrOutOfMemory,
	"FORBIDDEN":       ErrForbidden,
	"UNAUTHORIZED":    ErrUnauthorized,
	"BAD_FORMAT":      ErrInvalid,
	"UNKNOWN_COMMAND": ErrUnsupported,
	"INTERNAL_ERROR":  ErrServer,
}
