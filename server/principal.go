package server

import (
	"errors"
	"net"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
)

// Why a connection ends that is not, or no longer, welcome.
var (
	errRevoked         = errors.New("the user or the secret is gone from the file, or a right that a waiting reserve needs")
	errUnauthenticated = errors.New("it has not said who it is in time")
	errTooManyOfUser   = errors.New("there are too many connections of this user")
)

// visitor is who the client of a session is, and what it may do. A session has one only
// if there is a file of users. It belongs to the goroutine that runs the session.
//
// The methods that the usual way of a command calls do nothing on a nil visitor.
type principal struct {
	access  *access.Access
	address string        // of the client, without the port
	login   *access.Login // nil: it has not said who it is
	user    *access.User  // of the login, or anonymous
	joined  *access.User  // who counts the connection among theirs; nil: nobody does
	since   time.Time     // when the connection began

	unauthenticated bool  // counts in Server.strangers
	endCause        error // why the session has to end; nil: it has not
	failures        int   // of auth

	used    access.Right // on the tube in use; none if astray
	denied  bool         // the last use was refused: no tube is in use until one is not
	work    []string     // the tubes watched that it may work on; see workable
	workSet bool         // work is up to date

	grants  []grant // see lookups.go
	lookups lookups
}

// newVisitor begins with what the client's certificate says, if it has one.
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

// addressOf is the client's IP address; of a socket of the file system it is the word
// "local".
func addressOf(conn net.Conn) string {
	if addr, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return addr.IP.String()
	}
	return "local"
}

// enter makes the client somebody who has said who they are. It returns false if there
// are too many connections of that user.
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

// become has the rights of a user count from now on.
func (p *principal) setUser(s *session, l *access.Login, u *access.User) {
	p.login, p.user, p.grants = l, u, nil
	p.watchedChanged()
	p.updateUsed(s)
}

// quit ends what the connection counts for.
func (p *principal) leaveUser() {
	if p.joined != nil {
		p.joined.Quit()
		p.joined = nil
	}
}

// leave is for the end of the session.
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

// isLate tells whether the client should have said who it is by now.
func (p *principal) isAuthOverdue(now time.Time, limit time.Duration) bool {
	return p.unauthenticated && p.user.Anywhere() == access.Nothing && now.Sub(p.since) >= limit
}

// tooManyStrangers tells whether a connection more that has not said who it is would be
// too many.
func (s *Server) tooManyUnauthenticated() bool {
	a := s.config.Access
	return a != nil && a.Anonymous().Anywhere() == access.Nothing && s.unauthenticated.Load() >= int64(s.config.MaxUnauthenticated)
}

// accessChanged has all sessions look at what the new file of users says of them.
func (s *Server) accessChanged() {
	for _, ss := range s.allSessions() {
		ss.signal(aclChanged)
	}
}

// renew finds out what the new file of users says of the client. The session ends if it
// is gone, or if it waits for jobs of a tube on which it may not work any more.
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

// revoke ends the session as soon as it is in nobody else's hands.
func (s *session) revoke() {
	s.principal.endCause = errRevoked
	if s.phase == waiting && s.cause == nil {
		s.cause = errRevoked
	}
}

func (p *principal) mayWork(tubes []string) bool {
	return len(p.user.Visible(tubes, access.Work)) == len(tubes)
}

// noteUsed is called when another tube is used, or by somebody else. What may not be put
// is not even kept in memory.
func (p *principal) updateUsed(s *session) {
	if p.used = p.user.On(s.used); p.denied {
		p.used = access.Nothing
	}
	if p.used&access.Put != 0 {
		s.in.LimitBody(s.queue.MaxJobSize())
	} else {
		s.in.LimitBody(0)
	}
}

// noteUse is called when a use is not refused.
func (p *principal) useAccepted(s *session) {
	if p != nil {
		p.denied = false
		p.updateUsed(s)
	}
}

// noteWatched is called when other tubes are watched, or by somebody else.
func (p *principal) watchedChanged() {
	if p != nil {
		p.work, p.workSet = nil, false
	}
}

// workable returns the tubes watched on which the visitor may work, for an operation.
// Who watches default only because every connection does gets nothing from there.
func (p *principal) workTubes(s *session) []string {
	if p.user.Everywhere()&access.Work != 0 {
		return s.watched.lend()
	}
	if !p.workSet {
		p.work, p.workSet = p.user.Visible(s.watched.names, access.Work), true
	}
	return p.work
}

// visible returns the tubes that the client may see.
func (s *session) visible(tubes []string) []string { return s.tubesWith(tubes, access.Read) }

// governed returns the tubes whose policies the client may see.
func (s *session) administered(tubes []string) []string { return s.tubesWith(tubes, access.Admin) }

func (s *session) tubesWith(tubes []string, one access.Right) []string {
	if s.principal == nil {
		return tubes
	}
	return s.principal.user.Visible(tubes, one)
}

// needs is what each verb needs, from the table of package access.
var needs = func() (all [protocol.NumVerbs]access.Need) {
	for v := range protocol.NumVerbs {
		all[v], _ = access.NeedOf(v.String())
	}
	return all
}()

// planVisited is plan for a session that has a visitor.
func (s *session) planForPrincipal(c *protocol.Command, r *request) {
	switch {
	case c.Verb == protocol.Put && s.principal.used&access.Put == 0 && (c.Fault == protocol.NoFault || c.Fault == protocol.JobTooBig):
		r.fault = protocol.NoFault // see noteUsed
		refuse(c, r, (*protocol.Writer).Forbidden)
	case c.Fault != protocol.NoFault:
	case needs[c.Verb].Where == access.OfJob:
		s.planOfJob(c, r)
	case !s.principal.may(s, c):
		refuse(c, r, (*protocol.Writer).Forbidden)
		if c.Verb == protocol.Use { // what follows was not meant for the tube of before
			s.principal.denied = true
			s.principal.updateUsed(s)
		}
	case c.Verb == protocol.Put && !s.principal.user.MayPut(len(c.Body)):
		refuse(c, r, (*protocol.Writer).OutOfMemory)
	default:
		handlers[c.Verb].plan(s, c, r)
	}
}

// refusePut answers a command with a word, and drops its body if it has one.
func refuse(c *protocol.Command, r *request, word func(*protocol.Writer)) {
	takeBuffer(c).Release()
	c.Body = nil
	r.reply = func(s *session) { word(s.out) }
}

// may tells whether the visitor may do what a command wants that is not about one job.
func (p *principal) may(s *session, c *protocol.Command) bool {
	switch need := needs[c.Verb]; need.Where {
	case access.OfTube:
		on := p.used
		if c.Name != nil {
			on = p.user.On(string(c.Name))
		}
		return need.Met(on) && p.mayReach(c)
	case access.OfTubes:
		return need.Met(p.user.Anywhere()) && (!isReserve(c.Verb) || len(p.workTubes(s)) > 0)
	case access.Somewhere:
		return need.Met(p.user.Anywhere())
	default:
		return need.Met(p.user.Everywhere())
	}
}

// mayReach tells whether the visitor may have jobs go where a command wants them: to another
// tube, now or when they are dead, or to the URL of a push.
func (p *principal) mayReach(c *protocol.Command) bool {
	t := c.Tags
	switch {
	case c.To != nil:
		return p.user.On(string(c.To))&access.Admin != 0 && p.user.MayRedirect(string(c.Name), string(c.To))
	case t == nil:
		return true
	case c.Verb != protocol.SetPolicy:
		return t.Dead == "" || p.user.On(t.Dead)&access.Put != 0
	}
	name := string(c.Name)
	return (t.Dead == "" || p.user.MayRedirect(name, t.Dead)) && (t.Push.URL == "" || p.user.MayRedirect(name, ""))
}
