package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"redstalk/server/gateway"
	"redstalk/server/queue"
	"redstalk/storage"
)

// TestWords: each error has its word, however it is wrapped, and errors that no client
// causes are logged.
func TestWords(t *testing.T) {
	for err, want := range map[error]struct {
		word     string
		expected bool
	}{
		queue.ErrTooBig:        {"JOB_TOO_BIG", true},
		queue.ErrDraining:      {"DRAINING", true},
		storage.ErrNoSpace:     {"OUT_OF_MEMORY", false},
		gateway.ErrTooFast:     {"OUT_OF_MEMORY", true},
		gateway.ErrTooMany:     {"TOO_MANY", true},
		gateway.ErrHeld:        {"RESERVED", true},
		gateway.ErrForbidden:   {"FORBIDDEN", true},
		context.Canceled:       {"INTERNAL_ERROR", true},
		queue.ErrClosed:        {"INTERNAL_ERROR", true},
		storage.ErrClosed:      {"INTERNAL_ERROR", true},
		storage.ErrUnavailable: {"INTERNAL_ERROR", false},
		errors.New("a secret"): {"INTERNAL_ERROR", false},
	} {
		wrapped := fmt.Errorf("putting a job: %w", err)
		if got := gateway.Word(wrapped); got != want.word {
			t.Errorf("%v is %s, not %s", err, got, want.word)
		}
		if got := gateway.Expected(wrapped); got != want.expected {
			t.Errorf("%v: expected is %v", err, got)
		}
	}
}
