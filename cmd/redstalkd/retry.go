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
	// overlap is how long a start waits for an address or a directory that another process has. It
	// is for a process that was told to end just now: one that goes on serving is seen soon.
	takenTimeout = time.Second

	// overlapEvery is how often it is tried meanwhile.
	retryInterval = 20 * time.Millisecond
)

// errAnswers: another server has the unix socket.
var errAnswers = errors.New("another server answers")

// whenFree calls try until nobody else has what it wants. It gives up with try's error after
// overlap, or, if a process has it that is ending in good order, after the time that this one
// would take to end.
func retryWhileTaken[T any](ctx context.Context, s *settings, try func() (T, error)) (T, error) {
	told := false
	for began := time.Now(); ; {
		v, err := try()
		limit := s.takenTimeoutFor(err)
		if time.Since(began) >= limit {
			return v, err
		}
		if limit > takenTimeout && !told {
			told = true
			s.engine.log.Warn("waiting for the process that has the directory, which is ending", "err", err)
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
			return v, err
		}
	}
}

// overlap is how long an error may last before it counts.
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
