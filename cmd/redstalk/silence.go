package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"redstalk/protocol/client"
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
	if p := t.progress; p != nil {
		t.infof("%v; the server is busy", p)
	} else {
		t.infof("redstalk: connected to %s, but no reply for %s: %s. Waiting up to %s", addr, silenceLimit, cause, t.dialer.limit)
	}
	err := <-done
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("no reply within %s: %s", t.dialer.limit, cause)
	}
	return err
}

// longest is how long a command can take whose work grows with the number of jobs, as long as the server answers others.
const longest = 24 * time.Hour

// longRequest sends a command that takes all jobs out of some states of the tube; the reply is the word want and their number. It can
// take longer than --timeout: meanwhile another connection asks how many are left, and standard error says it.
func (t *task) longRequest(doing, want, command string, states []string, all uint64) (n uint64, err error) {
	t.conn.Timeout = longest
	defer func() { t.conn.Timeout = t.dialer.limit }()
	done := make(chan error, 1)
	go func() {
		done <- t.conn.Ask([]byte(command+"\r\n"), 1, func(r *client.Reply) error {
			word, count, _ := strings.Cut(string(r.Line), " ")
			if word != want {
				return replyError(doing, r)
			}
			fmt.Sscan(count, &n)
			return nil
		})
	}()
	if err = t.watchProgress(done, doing, states, all); err != nil {
		return 0, connectionError(doing, err)
	}
	return n, nil
}

// watchProgress returns what comes from done. Until then it says again and again how many of the jobs are left.
func (t *task) watchProgress(done <-chan error, doing string, states []string, all uint64) error {
	bar := startProgress(t, doing, all)
	defer bar.end()
	var other *client.Conn
	for tick := time.NewTicker(silenceLimit); ; {
		select {
		case err := <-done:
			return err
		case <-tick.C:
		}
		var err error
		if other == nil {
			if other, err = t.dialer.connect(); err == nil {
				defer other.Close()
			}
		}
		var page client.Page
		if err == nil {
			page, err = other.Page("stats-tube " + t.tube())
		}
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			t.conn.Close() // it does not answer this one either
			<-done
			return fmt.Errorf("no reply within %s, nor to another connection: %w", t.dialer.limit, err)
		}
		bar.set(all - min(all, jobsIn(page, states)))
	}
}
