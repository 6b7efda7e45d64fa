package main

import (
	"errors"
	"fmt"
	"strings"
)

// The exit codes; the package comment explains them.
const (
	exitFailure    = 1
	exitWrong      = 4 // fsck: there are faults that were not repaired; import: a file is damaged
	exitUsage      = 5
	exitLocked     = 10
	exitUserLookup = 32
	exitNoUser     = 33
	exitBecome     = 34
	exitListen     = 111
)

// exitError is an error with an exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// failure is fmt.Errorf for an error with an exit code.
func failure(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

func exitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return exitFailure
}

func oneLine(s string) string { return strings.Join(strings.FieldsFunc(s, isNewline), "; ") }

func isNewline(r rune) bool { return r == '\n' || r == '\r' }
