package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"redstalk/storage/beanstalkd"
	"redstalk/storage/embedded"
	"redstalk/storage/redis"
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
// directory, or because Redis cannot be reached. It gives up with try's error after takenTimeout, or,
// if the other process is shutting down, after the time that this one would take to shut down, or, with
// Redis, after --store-timeout.
func retryWhileTaken[T any](ctx context.Context, s *settings, try func() (T, error)) (T, error) {
	warned := false
	for began := time.Now(); ; {
		v, err := try()
		limit := s.takenTimeoutFor(err)
		if time.Since(began) >= limit {
			return v, err
		}
		if !warned {
			warned = s.warnWaiting(err, limit)
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
			return v, err
		}
	}
}

// warnWaiting logs that a start waits for the cause of err to end, unless it is expected to end soon.
func (s *settings) warnWaiting(err error, limit time.Duration) bool {
	switch {
	case errors.Is(err, embedded.ErrEnding):
		s.engine.log.Warn("waiting for the process that has the directory, which is ending", "err", err)
	case errors.Is(err, redis.ErrUnreachable):
		s.engine.log.Warn("waiting for Redis", "at most", limit, "err", err)
	default:
		return false
	}
	return true
}

// takenTimeoutFor is how long to retry after an error; 0 for an error that has other causes.
func (s *settings) takenTimeoutFor(err error) time.Duration {
	switch {
	case errors.Is(err, embedded.ErrEnding):
		return s.grace + storeLimit
	case errors.Is(err, redis.ErrUnreachable):
		return s.engine.timeout
	case errors.Is(err, embedded.ErrLocked), errors.Is(err, beanstalkd.ErrLocked),
		errors.Is(err, errAnswers), errors.Is(err, syscall.EADDRINUSE):
		return takenTimeout
	}
	return 0
}
