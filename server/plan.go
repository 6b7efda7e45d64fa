package server

import (
	"slices"

	"redstalk/protocol"
)

// collect plans the commands that have come, as many as fit into a burst. It reports whether there
// is any.
func (s *session) collect() bool {
	s.releaseAnswers()
	s.watched.endLend()
	if s.principal != nil {
		s.principal.forgetLookups()
	}
	s.requests, s.next, s.bytes, s.tubes = s.requests[:0], 0, 0, 0
	s.blocking, s.waited, s.endsBurst = false, false, false
	for len(s.requests) < maxBurst && s.bytes < maxBurstBytes && s.tubes < maxBurstTubes && len(s.batch.Ops) < maxBurstOps && !s.quit && !s.endsBurst {
		if !s.held && !s.in.Next(&s.command) {
			break
		}
		if s.held = s.mustHold(s.command.Verb); s.held {
			// The names are in the read buffer, which is filled again before the command is
			// planned.
			c := &s.command
			c.Name, c.To, c.List, c.Secret = slices.Clone(c.Name), slices.Clone(c.To), slices.Clone(c.List), slices.Clone(c.Secret)
			break
		}
		s.plan(&s.command)
	}
	s.updateArrival()
	return len(s.requests) > 0
}

// mustHold reports whether a command of this verb must not be planned before the burst is answered:
// because a reserve before it may have to wait for a job, or lookups are under way, or the command
// would have to copy a long list that is lent to operations.
func (s *session) mustHold(v protocol.Verb) bool {
	return s.blocking && !isReserve(v) || s.principal != nil && s.principal.mustHold(v) || v == protocol.Ignore && s.watched.lent && s.watched.many()
}

// plan appends a command and its operations to the burst. It must copy what it keeps of the command,
// except the body: the rest is in the read buffer.
func (s *session) plan(c *protocol.Command) {
	s.requests = append(s.requests, request{verb: c.Verb, fault: c.Fault, wrong: c.Wrong, counted: c.Counted, producer: c.Producer, op: -1})
	r := &s.requests[len(s.requests)-1]
	if s.server.config.Audit != nil && c.Fault == protocol.NoFault && (c.Verb.Administers() || c.Verb.Deletes()) {
		s.planAudit(c, r)
	}
	switch {
	case c.Fault == protocol.HTTPRequest:
		s.refuseHTTP(r)
	case s.principal != nil:
		s.planForPrincipal(c, r)
	case c.Fault == protocol.NoFault:
		handlers[c.Verb].plan(s, c, r)
	case c.Verb == protocol.Auth:
		r.fault = protocol.UnknownCommand // whatever its arguments are
	}
}

// refuseHTTP ends the connection as quit does. Nothing that follows an HTTP request is read as a
// command, because a web page can have chosen it.
func (s *session) refuseHTTP(r *request) {
	s.server.httpLog.Warn(s.server.log, "closed a connection on which HTTP is spoken: a web page that attacks, or a client with the wrong port", "conn", uint64(s.holder))
	r.verb, r.fault, s.quit = protocol.Quit, protocol.NoFault, true
}

// submit submits the batch of the burst to the store.
func (s *session) submit() {
	if len(s.batch.Ops) == 0 {
		s.yieldFirst = s.tubes >= maxBurstTubes // the loop serves other connections first
		return
	}
	if s.blocking {
		s.wakeUps = s.queue.WakeUps()
	}
	s.phase = storing
	s.submitter.Submit(&s.batch)
}
