package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"redstalk/storage/beanstalkd"
	"redstalk/storage/embedded"
)

const (
	// takenTimeout is how long a start waits for an address or a directory that another process uses.
	// It is meant for a process that is just being stopped. If the other process continues serving,
	// the start fails soon.
	takenTimeout = time.Second

	// retryInterval is the time between two attempts.
	retryInterval = 20 * time.Millisecond
)

// errAnswers reports that another server serves the unix socket.
var errAnswers = errors.New("another server answers")

// retryWhileTaken calls try until it does not fail because another process uses the address or
// directory. It gives up with try's error after takenTimeout, or, if the other process is
// shutting down, after the time that this one would take to shut down.
func retryWhileTaken[T any](ctx context.Context, s *settings, try func() (T, error)) (T, error) {
	warned := false
	for began := time.Now(); ; {
		v, err := try()
		limit := s.takenTimeoutFor(err)
		if time.Since(began) >= limit {
			return v, err
		}
		if limit > takenTimeout && !warned {
			warned = true
			s.engine.log.Warn("waiting for the process that has the directory, which is ending", "err", err)
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
			return v, err
		}
	}
}

// takenTimeoutFor is how long to retry after an error; 0 for an error that has other causes.
func (s *settings) takenTimeoutFor(err error) time.Duration {
	switch {
	case errors.Is(err, embedded.ErrEnding):
		return s.grace + storeLimit
	case errors.Is(err, embedded.ErrLocked), errors.Is(err, beanstalkd.ErrLocked),
		errors.Is(err, errAnswers), errors.Is(err, syscall.EADDRINUSE):
		return takenTimeout
	}
	return 0
}
