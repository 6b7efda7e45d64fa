package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"redstalk/protocol"
	"redstalk/protocol/client"
	"redstalk/tube/field"
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
	exitTrouble   = 8

	exitInterrupted = 130
)

// exitCodes are the exit codes with their meanings, for the reference.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{0, "done"},
	{exitFailed, "the server refused, or another error; the message says which"},
	{exitUsage, "the command line is wrong; nothing was sent"},
	{exitNothing, "not found: no such job, tube or policy, or no job within the wait"},
	{exitServer, "the server cannot be reached, or the connection failed"},
	{exitExtension, "the server lacks an extension that the command needs; nothing was changed"},
	{exitForbidden, "the server requires a user and a secret, or this user may not do that"},
	{exitJobs, "reserve --exec: at least one job failed; wait and put --wait: the job has ended, but is not done, or it is parked"},
	{exitTrouble, "status: something needs attention"},
	{exitInterrupted, "stopped by SIGINT or SIGTERM before everything was done"},
}

// failure is an error with an exit code.
type failure struct {
	code int
	error
}

func (f failure) Unwrap() error { return f.error }

// usage returns the error for a wrong command line.
func usage(format string, args ...any) error {
	return failure{exitUsage, fmt.Errorf(format, args...)}
}

// notFound returns the error of a command that found nothing.
func notFound(format string, args ...any) error {
	return failure{exitNothing, fmt.Errorf(format, args...)}
}

// report prints an error on standard error, if there is one, and returns the exit code.
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

// connectionError returns the error of a connection that failed during a request.
func connectionError(doing string, err error) error {
	var own failure
	if errors.As(err, &own) {
		return err
	}
	return failure{exitServer, fmt.Errorf("%s: %w", doing, err)}
}

// interrupted returns the error of a command that was stopped. so says how far it got.
func interrupted(so string) error { return failure{exitInterrupted, errors.New("interrupted: " + so)} }

// replyError returns the error of a reply that is not the expected one. doing describes the request:
// "deleting job 7".
func replyError(doing string, r *client.Reply) error {
	word, _, _ := bytes.Cut(r.Line, []byte(" "))
	err := fmt.Errorf("%s: the server answered %s", doing, r.Line)
	switch string(word) {
	case "NOT_FOUND":
		return notFound("%s: not found (NOT_FOUND)", doing)
	case "TIMED_OUT":
		return notFound("%s: timed out", doing)
	case "UNKNOWN_COMMAND":
		return failure{exitExtension, fmt.Errorf("%s: the server does not know this command", doing)}
	case "INTERNAL_ERROR":
		return failure{exitFailed, fmt.Errorf("%w: its store has failed, or is away; the log of the server says why", err)}
	case "OUT_OF_MEMORY":
		return failure{exitFailed, fmt.Errorf("%w: the quota of the tube is used up, or the store lacks room (--disk-reserve of the server): redstalk status says which", err)}
	case "UNAUTHORIZED", "FORBIDDEN":
		return failure{exitForbidden, err}
	}
	return failure{exitFailed, err}
}

// explained adds to the error of a BAD_FORMAT what is wrong with the tags of the command, if that is
// the reason.
func explained(err error, r *client.Reply, tags string, in field.Commands) error {
	if string(r.Line) == "BAD_FORMAT" {
		if wrong := protocol.WrongTags(tags, in); wrong != "" {
			return fmt.Errorf("%w: %s", err, wrong)
		}
	}
	return err
}

// fileError wraps an error of reading a file, so that its text names the file once.
func fileError(what, path string, err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return failure{exitUsage, fmt.Errorf("reading %s %s: %w", what, path, err)}
}

// tooBig adds the server's limit to the error of a JOB_TOO_BIG. It asks another connection, since more replies can follow on the task's own.
func (t *task) tooBig(err error, r *client.Reply) error {
	if string(r.Line) != "JOB_TOO_BIG" {
		return err
	}
	limit := 0
	if other, dialErr := t.dialer.connect(); dialErr == nil {
		page, _ := other.Page("stats")
		limit = maxBodyOf(page)
		other.Close()
	}
	if limit == 0 {
		return fmt.Errorf("%w: the body is longer than the server's --max-job-size", err)
	}
	return fmt.Errorf("%w: the body is longer than %s bytes, the server's --max-job-size (-z)", err, grouped(uint64(limit)))
}

// maxBodyOf returns the longest body that a server takes, from its page of stats; 0 if that is unknown.
func maxBodyOf(stats client.Page) int { return int(numberOf(stats, "max-job-size")) }
