package server

import (
	"context"
	"errors"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/storage"
)

// This file has auth. Comparing a secret with a hash takes long, so another goroutine does it
// while the session is in phase verifying. No command after an auth is planned before the auth is
// answered.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.Auth: {planAuth, answerAuth},
	})
}

// maxAuthFailures is after how many failed auth commands a connection is closed.
const maxAuthFailures = 3

func planAuth(s *session, c *protocol.Command, r *request) {
	if s.principal == nil {
		r.fault = protocol.UnknownCommand
		return
	}
	s.endsBurst = true
	r.attempt = &authAttempt{name: string(c.Name), secret: string(c.Secret)}
	p := s.principal
	if login := p.access.Known(p.address, r.attempt.name, r.attempt.secret); login != nil {
		r.attempt.login, r.attempt.started = login, true
	}
}

// startVerifying sends the replies before the auth, and starts a goroutine that verifies the
// secret.
func (s *session) startVerifying(r *request) error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	s.phase = verifying
	attempt, p := r.attempt, s.principal
	attempt.started = true
	var ctx context.Context
	ctx, attempt.giveUp = context.WithCancel(s.server.ctx)
	go func() {
		attempt.login, attempt.err = p.access.Authenticate(ctx, p.address, attempt.name, attempt.secret)
		s.signal(verified)
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
	s.cause = s.handleRead(s.in.Fill())
	return true
}

// checkVerifying ends a connection that takes longer than the limit to authenticate. A
// client that has closed, or only its sending side, gets the time from one check to the
// next: a connection that nobody reads from must not count for long.
func (s *session) checkVerifying(now time.Time) {
	if s.idleCheck.leaving || s.principal.isAuthOverdue(now, s.server.config.AuthTimeout) {
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
	p, login, err := s.principal, r.attempt.login, r.attempt.err
	if r.attempt.giveUp != nil {
		r.attempt.giveUp()
	}
	r.attempt = nil
	if login != nil { // the file of users can have changed meanwhile
		login = p.access.Renew(login)
	}
	switch {
	case errors.Is(err, access.ErrBusy):
		s.out.OutOfMemory() // too many attempts; this one was not looked at
	case login == nil:
		if p.failures++; p.failures >= maxAuthFailures {
			s.quit = true
		}
		s.out.Unauthorized()
	case p.logIn(s, login):
		s.out.Done(r.verb)
	default:
		s.out.OutOfMemory() // too many connections of this user
	}
}
