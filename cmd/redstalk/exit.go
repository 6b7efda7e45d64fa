package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"redstalk/protocol/client"
)

// Exit codes.
const (
	exitFailed    = 1
	exitUsage     = 2
	exitNothing   = 3
	exitServer    = 4
	exitExtension = 5
	exitForbidden = 6
	exitJobs      = 7

	exitInterrupted = 130
)

// exitCodes says what they mean, for the reference.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{0, "done"},
	{exitFailed, "the server refused, or something else went wrong; the message says what"},
	{exitUsage, "the command line is wrong; nothing was sent"},
	{exitNothing, "nothing there: no such job, tube or policy, or no job came in time"},
	{exitServer, "the server cannot be reached, or the connection broke"},
	{exitExtension, "the server lacks an extension that this needs; nothing was changed"},
	{exitForbidden, "the server wants a user and a secret, or this user may not do that"},
	{exitJobs, "reserve --exec: all went on, but at least one job failed"},
	{exitInterrupted, "told to end by SIGINT or SIGTERM before all was done"},
}

// failure is an error that has an exit code.
type failure struct {
	code int
	error
}

func (f failure) Unwrap() error { return f.error }

// usage is the error of a wrong command line.
func usage(format string, args ...any) error {
	return failure{exitUsage, fmt.Errorf(format, args...)}
}

// notFound is the error of a command that found nothing.
func notFound(format string, args ...any) error {
	return failure{exitNothing, fmt.Errorf(format, args...)}
}

// report says on standard error what went wrong, if anything, and returns the exit code.
func report(io stdio, err error) int {
	if err == nil {
		return 0
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(io.err, "redstalk:", text)
	}
	return codeOf(err)
}

// codeOf returns the exit code of an error.
func codeOf(err error) int {
	var own failure
	if errors.As(err, &own) {
		return own.code
	}
	return exitFailed
}

// connectionError is the error of a connection that failed while something was asked for.
func connectionError(doing string, err error) error {
	var own failure
	if errors.As(err, &own) {
		return err
	}
	return failure{exitServer, fmt.Errorf("%s: %w", doing, err)}
}

// interrupted is the error of a command that was told to end. so says how far it got.
func interrupted(so string) error { return failure{exitInterrupted, errors.New("interrupted: " + so)} }

// replyError is the error of a reply that was not hoped for. doing says what was asked for:
// "deleting job 7".
func replyError(doing string, r *client.Reply) error {
	word, _, _ := bytes.Cut(r.Line, []byte(" "))
	err := fmt.Errorf("%s: the server answered %s", doing, r.Line)
	switch string(word) {
	case "NOT_FOUND":
		return notFound("%s: there is no such thing (NOT_FOUND)", doing)
	case "TIMED_OUT":
		return notFound("%s: nothing came in time", doing)
	case "UNKNOWN_COMMAND":
		return failure{exitExtension, fmt.Errorf("%s: the server does not know this command", doing)}
	case "UNAUTHORIZED", "FORBIDDEN":
		return failure{exitForbidden, err}
	}
	return failure{exitFailed, err}
}

// fileError says what is wrong with a file without saying it twice.
func fileError(what, path string, err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return failure{exitUsage, fmt.Errorf("reading %s %s: %w", what, path, err)}
}
