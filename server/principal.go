package server

import (
	"errors"
	"net"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/netpoll"
	"redstalk/server/sight"
)

// Reasons why a connection of a principal ends.
var (
	errRevoked         = errors.New("the user or the secret was removed from the file, or a right that a waiting reserve needs was withdrawn")
	errUnauthenticated = errors.New("not authenticated in time")
	errTooManyOfUser   = errors.New("too many connections of this user")
)

// principal is the user that a session acts as, and the user's rights. A session has one only if
// there is a file of users. It belongs to the goroutine that runs the session.
//
// The methods noteReserved, useAccepted, watchedChanged and close do nothing on a nil principal.
type principal struct {
	access  *access.Access
	address string        // of the client, without the port
	login   *access.Login // nil: not authenticated
	user    *access.User  // of the login, or anonymous
	joined  *access.User  // the user whose connections include this one; nil: none
	since   time.Time     // when the connection began

	unauthenticated bool  // is counted in Server.unauthenticated
	endCause        error // why the session has to end; nil: it does not
	failures        int   // failed auth commands

	used    access.Right // on the used tube; none if denied
	denied  bool         // the last use was refused: until another one is accepted, the connection may put nowhere
	work    []string     // the watched tubes on which it may work; see workTubes
	workSet bool         // work is up to date

	grants  []grant // see lookups.go
	lookups lookups
}

// newPrincipal returns the principal of a new connection: the user in the client's certificate, if it
// has one, else anonymous.
func newPrincipal(s *session, conn net.Conn) *principal {
	p := &principal{access: s.server.config.Access, since: time.Now(), address: addressOf(conn)}
	p.user = p.access.Anonymous()
	if name := certifiedName(conn); name != "" {
		if p.login = p.access.Certified(name); p.login != nil {
			p.user = p.login.User
		}
	}
	if p.user.Join() {
		p.joined = p.user
	} else {
		p.endCause = errTooManyOfUser
	}
	p.unauthenticated = p.login == nil
	if p.unauthenticated {
		s.server.unauthenticated.Add(1)
	}
	p.updateUsed(s)
	return p
}

// addressOf returns the client's IP address, or "local" for a Unix socket.
func addressOf(conn net.Conn) string {
	if addr, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return addr.IP.String()
	}
	return "local"
}

// logIn makes the client a user that has authenticated. It returns false if that user has too many
// connections.
func (p *principal) logIn(s *session, l *access.Login) bool {
	if p.joined == nil || p.joined.Name() != l.User.Name() {
		if !l.User.Join() {
			return false
		}
		p.leaveUser()
		p.joined = l.User
	}
	if p.unauthenticated {
		p.unauthenticated = false
		s.server.unauthenticated.Add(-1)
	}
	p.failures = 0
	p.setUser(s, l, l.User)
	return true
}

// setUser makes the rights of a user apply from now on.
func (p *principal) setUser(s *session, l *access.Login, u *access.User) {
	p.login, p.user, p.grants = l, u, nil
	p.watchedChanged()
	p.updateUsed(s)
}

// leaveUser removes the connection from those of its user.
func (p *principal) leaveUser() {
	if p.joined != nil {
		p.joined.Quit()
		p.joined = nil
	}
}

// close is called at the end of the session.
func (p *principal) close(s *Server) {
	if p == nil {
		return
	}
	p.leaveUser()
	if p.unauthenticated {
		p.unauthenticated = false
		s.unauthenticated.Add(-1)
	}
}

// isAuthOverdue reports whether the client has not authenticated in time.
func (p *principal) isAuthOverdue(now time.Time, limit time.Duration) bool {
	return p.unauthenticated && p.user.Anywhere() == access.Nothing && now.Sub(p.since) >= limit
}

// accessChanged makes all sessions read their rights from the new file of users.
func (s *Server) accessChanged() {
	for _, ss := range s.allSessions() {
		ss.signal(aclChanged)
	}
}

// reloadPrincipal reads the client's rights from the new file of users. The session ends if its user is
// gone, or if it waits for jobs of a tube on which it may not work any more.
func (s *session) reloadPrincipal() {
	p := s.principal
	login, user := p.login, p.access.Anonymous()
	if login != nil {
		if login = p.access.Renew(login); login == nil {
			s.revoke()
			return
		}
		user = login.User
	}
	p.setUser(s, login, user)
	if s.phase == waiting && !p.mayWork(s.batch.Ops[s.requests[s.next].op].Tubes) {
		s.revoke()
	}
}

// revoke ends the session as soon as neither the store nor the waitlist has it.
func (s *session) revoke() {
	s.principal.endCause = errRevoked
	if (s.phase == waiting || s.phase == awaitingEnd) && s.cause == nil {
		s.cause = errRevoked
	}
}

// mayWork reports whether the principal may work on all of these tubes.
func (p *principal) mayWork(tubes []string) bool {
	return len(p.user.Visible(tubes, access.Work)) == len(tubes)
}

// updateUsed is called when the used tube or the user changes. If the client may not put, bodies that
// it sends are not even buffered.
func (p *principal) updateUsed(s *session) {
	if p.used = p.user.On(s.used); p.denied {
		p.used = access.Nothing
	}
	maxPut, maxBody := 0, 0 // the bodies of what will be refused are skipped
	if p.used&access.Put != 0 {
		maxPut = s.queue.MaxJobSize()
	}
	if p.user.Anywhere()&access.Put != 0 {
		maxBody = s.queue.MaxJobSize()
	}
	s.in.LimitBody(maxPut, maxBody)
}

// useAccepted is called when a use is not refused.
func (p *principal) useAccepted(s *session) {
	if p != nil {
		p.denied = false
		p.updateUsed(s)
	}
}

// watchedChanged is called when the watched tubes or the user change.
func (p *principal) watchedChanged() {
	if p != nil {
		p.work, p.workSet = nil, false
	}
}

// workTubes returns the watched tubes on which the principal may work, for an operation. A client without
// rights on default, which every connection watches at first, gets no job from it.
func (p *principal) workTubes(s *session) []string {
	if p.user.Everywhere()&access.Work != 0 {
		return s.watched.lend()
	}
	if !p.workSet {
		p.work, p.workSet = p.user.Visible(s.watched.names, access.Work), true
	}
	return p.work
}

// visible returns those of the tubes that the client may see.
func (s *session) visible(tubes []string) []string { return s.tubesWith(tubes, access.List) }

// rightsOn returns the client's rights on a tube.
func (s *session) rightsOn(tube string) access.Right {
	if s.principal == nil {
		return access.All
	}
	return s.principal.user.On(tube)
}

// sight returns what the client sees of the jobs of a tube.
func (s *session) sight(tube string) sight.Sight { return s.sightWith(s.rightsOn(tube)) }

// sightWith returns what the client sees of the jobs of a tube on which it has these rights.
func (s *session) sightWith(rights access.Right) sight.Sight {
	if s.principal == nil {
		return sight.Full
	}
	return s.principal.user.SightWith(rights)
}

// administered returns those of the tubes whose policies the client may see.
func (s *session) administered(tubes []string) []string { return s.tubesWith(tubes, access.Admin) }

// tubesWith returns those of the tubes on which the client has this right.
func (s *session) tubesWith(tubes []string, right access.Right) []string {
	if s.principal == nil {
		return tubes
	}
	return s.principal.user.Visible(tubes, right)
}

// needs is the rights that each verb needs, from the table of verbs.
var needs = func() (all [protocol.NumVerbs]access.Need) {
	for v := range protocol.NumVerbs {
		all[v] = v.Spec().Need
	}
	return all
}()

// refuse answers a command with a reply that needs no store, and releases its body if it has one.
func refuse(c *protocol.Command, r *request, reply func(*protocol.Writer)) {
	takeBuffer(c).Release()
	c.Body = nil
	r.reply = func(s *session) { reply(s.out) }
}

// certifiedName returns the name in the client's certificate, "" if it has none that was
// verified.
func certifiedName(conn net.Conn) string {
	if tlsConn, ok := conn.(*netpoll.TLSConn); ok {
		state := tlsConn.ConnectionState()
		return access.NameOf(&state)
	}
	return ""
}
