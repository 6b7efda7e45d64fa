package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"redstalk/protocol/client"
)

// retryInterval is how long a driver leaves a waiting session alone. A put of a
// rate-limited producer is late by at most that.
const retryInterval = time.Millisecond

// A wire is one connection under load and the session it follows.
type wire struct {
	conn net.Conn
	s    session
	t    *counters
	http bool // replies are HTTP responses
}

// decoder returns a decoder for the replies of the connection.
func (w *wire) decoder() decoder {
	if w.http {
		return new(httpDecoder)
	}
	return new(client.Decoder)
}

// driveBlocking runs each session in its own goroutine and returns when
// all are done or the run is stopped. It works on every system; the epoll loop of
// drive_linux.go needs less processor time.
func driveBlocking(r *run, wires []*wire) error {
	var group sync.WaitGroup
	for _, w := range wires {
		group.Go(func() {
			if err := w.follow(r); err != nil {
				w.t.fail(err.Error())
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-r.quit
		for _, w := range wires {
			w.conn.SetDeadline(time.Unix(1, 0))
		}
	}()
	group.Wait()
	r.end()
	<-ended
	return nil
}

// follow sends the session's stages and passes it the replies until it is done.
// Stopping the run is not an error.
func (w *wire) follow(r *run) error {
	in := w.decoder()
	var reply client.Reply
	now := r.now()
	for {
		st, state := w.s.next(now)
		if state == done {
			return nil
		}
		if state == waits {
			time.Sleep(retryInterval)
			now = r.now()
			continue
		}
		sent := now
		if _, err := w.conn.Write(st.out); err != nil {
			return quitting(err)
		}
		for range st.replies {
			if err := w.receive(in, &reply); err != nil {
				return quitting(err)
			}
			now = r.now()
			w.s.replied(&reply, now)
		}
		if st.timed {
			w.t.latency.add(now - sent)
		}
	}
}

// receive reads until there is a reply.
func (w *wire) receive(in decoder, reply *client.Reply) error {
	for {
		if ok, err := in.Next(reply); ok || err != nil {
			return err
		}
		n, err := w.conn.Read(in.Space())
		if in.Filled(n); n == 0 && err != nil {
			return err
		}
	}
}

// quitting returns nil for the error that stopping the run causes.
func quitting(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the server closed a connection: %w", err)
	}
	return err
}
