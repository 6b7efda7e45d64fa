package worker

import (
	"errors"
	"fmt"
	"time"

	"redstalk/clients/go/internal/usercode"
)

// Causes why the context of a handler ends, for [context.Cause].
var (
	// ErrLeaseLost means that the TTR of the job is over, that its connection was lost, or that it is an [ErrDeleted].
	// What the handler returns then has no effect.
	ErrLeaseLost = errors.New("the job is no longer held")

	// ErrDeleted means that somebody has deleted the job, which cancels it. It is an [ErrLeaseLost] too.
	ErrDeleted = fmt.Errorf("%w: it was deleted", ErrLeaseLost)

	// ErrTimeout means that the time of the handler is over, see [Config]. If the handler returns an error
	// then, its text is the reason of the failure instead.
	ErrTimeout = errors.New("timeout")

	// ErrShutdown means that the worker shuts down, and the time for handlers to end is over.
	// A handler that returns an error then has not failed: its job is given back.
	ErrShutdown = errors.New("the worker shuts down")
)

// ErrNotFinished makes the result of a handler say that the job is not finished: it is ready again at once, which is no failure, and goes on
// from its last [Job.Checkpoint]. It is for handlers that are told to stop, see [Job.Stopping].
var ErrNotFinished = errors.New("the job is not finished")

// Skip makes the result of a handler say that trying again is of no use: the job is buried. err is the reason.
func Skip(err error) error { return &skipError{err} }

type skipError struct{ err error }

func (e *skipError) Error() string { return fmt.Sprintf("skipped: %v", e.err) }
func (e *skipError) Unwrap() error { return e.err }

// Snooze makes the result of a handler say that the job should come again after d, in whole
// seconds. That is no failure. (Servers without the capability reason count a release, and so one of the failures that retry
// waits allow.)
func Snooze(d time.Duration) error { return &snoozeError{d} }

type snoozeError struct{ wait time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.wait) }

// A PanicError is the failure of a handler that panicked. Middleware gets it as the handler's error.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// errExited is the failure of a handler that has ended its goroutine.
var errExited = errors.New("the handler called runtime.Goexit")

// A shownError is the error of a handler with its text, which is read once, since the method may panic.
type shownError struct {
	text string
	err  error
}

func shown(err error) *shownError { return &shownError{usercode.Text(err), err} }

func (e *shownError) Error() string { return e.text }
func (e *shownError) Unwrap() error { return e.err }
