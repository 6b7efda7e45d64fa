package gateway

import (
	"context"
	"errors"

	"redstalk/server/queue"
	"redstalk/storage"
)

// Word returns what a client is told about an error: a word of the beanstalk protocol, or
// one in the same style, and nothing else. The log has the cause.
func Word(err error) string {
	switch {
	case errors.Is(err, queue.ErrTooBig):
		return "JOB_TOO_BIG"
	case errors.Is(err, queue.ErrDraining):
		return "DRAINING"
	case errors.Is(err, storage.ErrNoSpace), errors.Is(err, ErrTooFast):
		return "OUT_OF_MEMORY"
	case errors.Is(err, ErrTooMany):
		return "TOO_MANY"
	case errors.Is(err, ErrHeld):
		return "RESERVED"
	case errors.Is(err, ErrForbidden):
		return "FORBIDDEN"
	}
	return "INTERNAL_ERROR"
}

// Expected reports whether an error need not be logged: the client caused it or has left, or
// the instance ends or drains.
func Expected(err error) bool {
	for _, expected := range []error{context.Canceled, ErrHeld, ErrTooMany, ErrForbidden, ErrTooFast, queue.ErrTooBig, queue.ErrDraining, queue.ErrClosed, storage.ErrClosed} {
		if errors.Is(err, expected) {
			return true
		}
	}
	return false
}
