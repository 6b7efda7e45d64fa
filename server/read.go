package server

import (
	"errors"
	"io"

	"redstalk/server/netpoll"
)

// fill reads once. The end of the stream is not an error: it sets halfClosed.
func (s *session) fill() error {
	s.countBegun()
	return s.handleRead(s.in.Fill())
}

// countBegun counts a command whose body has not come yet.
func (s *session) countBegun() {
	verb, counted, producer := s.in.Begun()
	if counted {
		s.countCommand(verb)
	}
	s.noteProducer(producer)
}

// handleRead handles the result of a read.
func (s *session) handleRead(err error) error {
	switch {
	case err == nil:
		s.reads++
		s.readable = s.wire.Readable()
		return nil
	case errors.Is(err, netpoll.ErrNoData):
		s.readable = false
		return nil
	case isEOF(err):
		s.readable, s.halfClosed = false, true
		return nil
	}
	return err
}

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
