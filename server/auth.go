package server

import (
	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/storage"
)

// This file has auth. Comparing a secret with a hash takes long, so another goroutine does it
// while the session is in phase verifying. No command after an auth is planned before the auth is
// answered.

// maxAuthFailures is after how many failed auth commands a connection is closed.
const maxAuthFailures = 3

// authAttempt is an auth that is not answered yet. From the moment when started is set, it belongs
// to the verifying goroutine, until that signals the session.
type authAttempt struct {
	name, secret string
	started      bool
	login        *access.Login // nil: name or secret is wrong
}

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
	go func() {
		attempt.login, _ = p.access.Authenticate(s.server.ctx, p.address, attempt.name, attempt.secret)
		s.signal(verified)
	}()
	return nil
}

func answerAuth(s *session, r *request, _ *storage.Answer) {
	p, login := s.principal, r.attempt.login
	r.attempt = nil
	if login != nil { // the file of users can have changed meanwhile
		login = p.access.Renew(login)
	}
	switch {
	case login == nil:
		if p.failures++; p.failures >= maxAuthFailures {
			s.quit = true
		}
		s.out.Unauthorized()
	case p.logIn(s, login):
		s.out.Authenticated()
	default:
		s.out.OutOfMemory() // too many connections of this user
	}
}
