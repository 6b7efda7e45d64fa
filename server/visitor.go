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
	errMany            = errors.New("there are too many connections of this user")
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
	unwanted        error // why the session has to end; nil: it has not
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
	v := &principal{access: s.server.config.Access, since: time.Now(), address: addressOf(conn)}
	v.user = v.access.Anonymous()
	if name := certifiedName(conn); name != "" {
		if v.login = v.access.Certified(name); v.login != nil {
			v.user = v.login.User
		}
	}
	if v.user.Join() {
		v.joined = v.user
	} else {
		v.unwanted = errMany
	}
	v.unauthenticated = v.login == nil
	if v.unauthenticated {
		s.server.unauthenticated.Add(1)
	}
	v.noteUsed(s)
	return v
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
func (v *principal) enter(s *session, l *access.Login) bool {
	if v.joined == nil || v.joined.Name() != l.User.Name() {
		if !l.User.Join() {
			return false
		}
		v.quit()
		v.joined = l.User
	}
	if v.unauthenticated {
		v.unauthenticated = false
		s.server.unauthenticated.Add(-1)
	}
	v.failures = 0
	v.become(s, l, l.User)
	return true
}

// become has the rights of a user count from now on.
func (v *principal) become(s *session, l *access.Login, u *access.User) {
	v.login, v.user, v.grants = l, u, nil
	v.noteWatched()
	v.noteUsed(s)
}

// quit ends what the connection counts for.
func (v *principal) quit() {
	if v.joined != nil {
		v.joined.Quit()
		v.joined = nil
	}
}

// leave is for the end of the session.
func (v *principal) leave(s *Server) {
	if v == nil {
		return
	}
	v.quit()
	if v.unauthenticated {
		v.unauthenticated = false
		s.unauthenticated.Add(-1)
	}
}

// isLate tells whether the client should have said who it is by now.
func (v *principal) isLate(now time.Time, limit time.Duration) bool {
	return v.unauthenticated && v.user.Anywhere() == access.Nothing && now.Sub(v.since) >= limit
}

// tooManyStrangers tells whether a connection more that has not said who it is would be
// too many.
func (s *Server) tooManyUnauthenticated() bool {
	a := s.config.Access
	return a != nil && a.Anonymous().Anywhere() == access.Nothing && s.unauthenticated.Load() >= int64(s.config.MaxUnauthenticated)
}

// accessChanged has all sessions look at what the new file of users says of them.
func (s *Server) accessChanged() {
	for _, ss := range s.all() {
		ss.signal(aclChanged)
	}
}

// renew finds out what the new file of users says of the client. The session ends if it
// is gone, or if it waits for jobs of a tube on which it may not work any more.
func (s *session) renew() {
	v := s.principal
	login, user := v.login, v.access.Anonymous()
	if login != nil {
		if login = v.access.Renew(login); login == nil {
			s.revoke()
			return
		}
		user = login.User
	}
	v.become(s, login, user)
	if s.phase == waiting && !v.mayWork(s.batch.Ops[s.requests[s.next].op].Tubes) {
		s.revoke()
	}
}

// revoke ends the session as soon as it is in nobody else's hands.
func (s *session) revoke() {
	s.principal.unwanted = errRevoked
	if s.phase == waiting && s.cause == nil {
		s.cause = errRevoked
	}
}

func (v *principal) mayWork(tubes []string) bool {
	return len(v.user.Visible(tubes, access.Work)) == len(tubes)
}

// noteUsed is called when another tube is used, or by somebody else. What may not be put
// is not even kept in memory.
func (v *principal) noteUsed(s *session) {
	if v.used = v.user.On(s.used); v.denied {
		v.used = access.Nothing
	}
	if v.used&access.Put != 0 {
		s.in.LimitBody(s.queue.MaxJobSize())
	} else {
		s.in.LimitBody(0)
	}
}

// noteUse is called when a use is not refused.
func (v *principal) noteUse(s *session) {
	if v != nil {
		v.denied = false
		v.noteUsed(s)
	}
}

// noteWatched is called when other tubes are watched, or by somebody else.
func (v *principal) noteWatched() {
	if v != nil {
		v.work, v.workSet = nil, false
	}
}

// workable returns the tubes watched on which the visitor may work, for an operation.
// Who watches default only because every connection does gets nothing from there.
func (v *principal) workable(s *session) []string {
	if v.user.Everywhere()&access.Work != 0 {
		return s.watched.lend()
	}
	if !v.workSet {
		v.work, v.workSet = v.user.Visible(s.watched.names, access.Work), true
	}
	return v.work
}

// visible returns the tubes that the client may see.
func (s *session) visible(tubes []string) []string { return s.only(tubes, access.Read) }

// governed returns the tubes whose policies the client may see.
func (s *session) governed(tubes []string) []string { return s.only(tubes, access.Admin) }

func (s *session) only(tubes []string, one access.Right) []string {
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
func (s *session) planVisited(c *protocol.Command, r *request) {
	switch {
	case c.Verb == protocol.Put && s.principal.used&access.Put == 0 && (c.Fault == protocol.NoFault || c.Fault == protocol.JobTooBig):
		r.fault = protocol.NoFault // see noteUsed
		refusePut(c, r, (*protocol.Writer).Forbidden)
	case c.Fault != protocol.NoFault:
	case needs[c.Verb].Where == access.OfJob:
		s.planOfJob(c, r)
	case !s.principal.may(s, c):
		refusePut(c, r, (*protocol.Writer).Forbidden)
		if c.Verb == protocol.Use { // what follows was not meant for the tube of before
			s.principal.denied = true
			s.principal.noteUsed(s)
		}
	case c.Verb == protocol.Put && !s.principal.user.MayPut(len(c.Body)):
		refusePut(c, r, (*protocol.Writer).OutOfMemory)
	default:
		handlers[c.Verb].plan(s, c, r)
	}
}

// refusePut answers a command with a word, and drops its body if it has one.
func refusePut(c *protocol.Command, r *request, word func(*protocol.Writer)) {
	takeBuffer(c).Release()
	c.Body = nil
	r.word = func(s *session) { word(s.out) }
}

// may tells whether the visitor may do what a command wants that is not about one job.
func (v *principal) may(s *session, c *protocol.Command) bool {
	switch need := needs[c.Verb]; need.Where {
	case access.OfTube:
		on := v.used
		if c.Name != nil {
			on = v.user.On(string(c.Name))
		}
		return need.Met(on) && v.mayReach(c)
	case access.OfTubes:
		return need.Met(v.user.Anywhere()) && (!isReserve(c.Verb) || len(v.workable(s)) > 0)
	case access.Somewhere:
		return need.Met(v.user.Anywhere())
	default:
		return need.Met(v.user.Everywhere())
	}
}

// mayReach tells whether the visitor may have jobs go where a command wants them: to another
// tube, now or when they are dead, or to the URL of a push.
func (v *principal) mayReach(c *protocol.Command) bool {
	t := c.Tags
	switch {
	case c.To != nil:
		return v.user.On(string(c.To))&access.Admin != 0 && v.user.MayRedirect(string(c.Name), string(c.To))
	case t == nil:
		return true
	case c.Verb != protocol.SetPolicy:
		return t.Dead == "" || v.user.On(t.Dead)&access.Put != 0
	}
	name := string(c.Name)
	return (t.Dead == "" || v.user.MayRedirect(name, t.Dead)) && (t.Push.URL == "" || v.user.MayRedirect(name, ""))
}
