package server

import (
	"context"
	"errors"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/storage"
)

// This file has auth. To compare a secret with a hash takes long, so it is done on another
// goroutine, while the session is in phase verifying. Nothing behind an auth is planned
// before it is answered.

// maxFailures is how many times a connection may fail to say who it is. Then it is closed.
const maxFailures = 3

// attempt is an auth on its way. The goroutine that finds out has it from begun on, until
// it signals the session.
type attempt struct {
	name, secret string
	begun        bool
	giveUp       context.CancelFunc // nil: nothing was begun
	login        *access.Login      // nil: it is not who it says
	err          error              // why it is nil
}

func planAuth(s *session, c *protocol.Command, r *request) {
	if s.principal == nil {
		r.fault = protocol.UnknownCommand
		return
	}
	s.alone = true
	r.attempt = &attempt{name: string(c.Name), secret: string(c.Secret)}
	v := s.principal
	if login := v.access.Known(v.address, r.attempt.name, r.attempt.secret); login != nil {
		r.attempt.login, r.attempt.begun = login, true
	}
}

// startVerifying has it found out who the client is. The replies before it are sent.
func (s *session) startVerifying(r *request) error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	s.phase = verifying
	t, v := r.attempt, s.principal
	t.begun = true
	var ctx context.Context
	ctx, t.giveUp = context.WithCancel(s.server.ending)
	go func() {
		t.login, t.err = v.access.Authenticate(ctx, v.address, t.name, t.secret)
		s.signal(known)
	}()
	return nil
}

// stepVerifying reads into the buffer what the client sends meanwhile, as far as there is
// room, so that its end is noticed.
func (s *session) stepVerifying() (more bool) {
	if s.cause != nil {
		s.giveUpVerifying(s.cause)
		return false
	}
	if !s.readable || s.in.Full() || s.wire.PendingBytes() > 0 {
		return false
	}
	s.cause = s.noteRead(s.in.Fill())
	return true
}

// inspectVerifying ends a connection that takes longer than the limit to authenticate. A
// client that has closed, or only its sending side, gets the time from one sweep to the
// next: a connection that nobody reads from must not count for long.
func (s *session) inspectVerifying(now time.Time) {
	if s.idleCheck.leaving || s.principal.isLate(now, s.server.config.AuthTimeout) {
		s.giveUpVerifying(errUnauthenticated)
		return
	}
	s.idleCheck.leaving = s.halfClosed
}

// giveUpVerifying ends the connection. The goroutine that verifies owns the attempt, and
// ends it.
func (s *session) giveUpVerifying(cause error) {
	s.requests[s.next].attempt.giveUp()
	s.end(cause)
}

func answerAuth(s *session, r *request, _ *storage.Answer) {
	v, login, err := s.principal, r.attempt.login, r.attempt.err
	if r.attempt.giveUp != nil {
		r.attempt.giveUp()
	}
	r.attempt = nil
	if login != nil { // the file may have changed meanwhile
		login = v.access.Renew(login)
	}
	switch {
	case errors.Is(err, access.ErrBusy):
		s.out.OutOfMemory() // too many attempts; this one was not looked at
	case login == nil:
		if v.failures++; v.failures >= maxFailures {
			s.quit = true
		}
		s.out.Unauthorized()
	case v.enter(s, login):
		s.out.Authenticated()
	default:
		s.out.OutOfMemory() // too many connections of this user
	}
}
