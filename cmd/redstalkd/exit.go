package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
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

// exitCode returns the exit code of an error. An address that the machine does not have may come: units start the program again then,
// in contrast to a port that another server has.
func exitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok && !(e.code == exitListen && errors.Is(err, syscall.EADDRNOTAVAIL)) {
		return e.code
	}
	return exitFailure
}

func oneLine(s string) string { return strings.Join(strings.FieldsFunc(s, isNewline), "; ") }

func isNewline(r rune) bool { return r == '\n' || r == '\r' }
