package server

import (
	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/storage"
)

// This file has auth. To compare a secret with a hash takes long, so it is done on another
// goroutine, while the session is in phase verifying. Nothing behind an auth is planned
// before it is answered.

// maxFailures is how many times a connection may fail to say who it is. Then it is closed.
const maxAuthFailures = 3

// attempt is an auth on its way. The goroutine that finds out has it from begun on, until
// it signals the session.
type authAttempt struct {
	name, secret string
	started      bool
	login        *access.Login // nil: it is not who it says
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

// startVerifying has it found out who the client is. The replies before it are sent.
func (s *session) startVerifying(r *request) error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	s.phase = verifying
	t, p := r.attempt, s.principal
	t.started = true
	go func() {
		t.login, _ = p.access.Authenticate(s.server.ctx, p.address, t.name, t.secret)
		s.signal(verified)
	}()
	return nil
}

func answerAuth(s *session, r *request, _ *storage.Answer) {
	p, login := s.principal, r.attempt.login
	r.attempt = nil
	if login != nil { // the file may have changed meanwhile
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
