package main

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// silenceLimit is how long a request can take until standard error says that there is no reply.
const silenceLimit = 2 * time.Second

// watchSilence calls ask, which makes a request. If that takes long, it says so on standard error, and why that can be;
// the error of a request that has timed out says the same. A new connection could not find out more: while the
// store is away, the server answers no command of it.
func (t *task) watchSilence(ask func() error) error {
	return t.watchSilenceOf(t.dialer.addr, "its store (Redis, or the disk) is away or busy, or the server hangs; its log and /readyz say which", ask)
}

// watchSilenceOf is watchSilence for the server at addr, with the cause of its silence.
func (t *task) watchSilenceOf(addr, cause string, ask func() error) error {
	done := make(chan error, 1)
	go func() { done <- ask() }()
	select {
	case err := <-done:
		return err
	case <-time.After(silenceLimit):
	}
	t.infof("redstalk: connected to %s, but no reply for %s: %s. Waiting up to %s", addr, silenceLimit, cause, t.dialer.limit)
	err := <-done
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("no reply within %s: %s", t.dialer.limit, cause)
	}
	return err
}
