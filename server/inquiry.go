package server

import (
	"cmp"
	"slices"
	"time"

	"redstalk/server/netpoll"
	"redstalk/server/queue"
	"redstalk/tube"
)

// Lists of connections cost nothing when nobody asks: nothing is recorded for them. A session is
// asked by a signal, and describes itself on whichever goroutine runs it.

// inquiry is one question to many sessions.
type inquiry struct {
	answers chan queue.Client // with room for the answers of all
}

const (
	// describedTogether is how many sessions are asked at a time.
	describedTogether = 250

	// inquiryPatience is how long their answers are awaited. A session answers at once unless
	// another goroutine runs it.
	inquiryPatience = 200 * time.Millisecond
)

// Clients implements queue.ClientSource.
func (s *Server) Clients(q *queue.ClientQuery) []queue.Client {
	var all []queue.Client
	for part := range slices.Chunk(s.sessionsAfter(q), describedTogether) {
		for _, c := range s.describe(part) {
			if q.Shows(c.User) {
				all = append(all, c)
			}
		}
		if len(all) >= q.Limit {
			return all[:q.Limit]
		}
	}
	return all
}

// sessionsAfter returns the sessions about which q asks, in the order of their numbers.
func (s *Server) sessionsAfter(q *queue.ClientQuery) []*session {
	all := slices.DeleteFunc(s.allSessions(), func(ss *session) bool { return ss.holder <= q.After })
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.holder, b.holder) })
	if !q.Mine && len(all) > q.Limit+describedTogether { // some can end meanwhile
		all = all[:q.Limit+describedTogether]
	}
	return all
}

// describe asks sessions about themselves. Those that end, or do not answer in time, are left out.
func (s *Server) describe(sessions []*session) []queue.Client {
	s.inquiries.Lock()
	defer s.inquiries.Unlock()
	ask := &inquiry{answers: make(chan queue.Client, len(sessions))}
	for _, ss := range sessions {
		ss.inquiry.Store(ask)
		ss.signal(describe)
	}
	late := time.After(inquiryPatience)
	var all []queue.Client
	for range sessions {
		select {
		case c := <-ask.answers:
			if c.ID != 0 {
				all = append(all, c)
			}
		case <-late:
			sortClients(all)
			return all
		}
	}
	sortClients(all)
	return all
}

// CloseClient implements queue.ClientSource.
func (s *Server) CloseClient(id tube.Holder) bool {
	for _, ss := range s.allSessions() {
		if ss.holder == id {
			ss.signal(forceClose)
			return true
		}
	}
	return false
}

func sortClients(all []queue.Client) {
	slices.SortFunc(all, func(a, b queue.Client) int { return cmp.Compare(a.ID, b.ID) })
}

// answerInquiry answers who asks about the connection; with an empty Client if it has ended.
func (s *session) answerInquiry() {
	ask := s.inquiry.Swap(nil)
	switch {
	case ask == nil:
	case s.phase >= ending || s.wire == nil:
		ask.answers <- queue.Client{}
	default:
		ask.answers <- s.describeItself()
	}
}

func (s *session) describeItself() queue.Client {
	c := queue.Client{
		ID: s.holder, Address: s.address(), Entrance: s.entrance, Name: s.name, Used: s.used,
		Watched: slices.Clone(s.watched.names[:min(s.watched.len(), queue.MaxShownTubes)]), Watching: s.watched.len(),
		Waiting: s.phase == waiting, Since: s.began.UnixMilli(),
	}
	if s.principal != nil {
		c.User = s.principal.user.Name()
	}
	return c
}

// address returns the client's address; "local" for a Unix socket.
func (s *session) address() string {
	if s.entrance == entranceUnix {
		return "local"
	}
	return s.from.String()
}

// How a connection can have come in.
const (
	entrancePlain = "beanstalk"
	entranceTLS   = "tls"
	entranceUnix  = "unix"
)

// entranceOf returns how a connection has come in.
func entranceOf(conn any, network string) string {
	if _, ok := conn.(*netpoll.TLSConn); ok {
		return entranceTLS
	}
	if network == "unix" {
		return entranceUnix
	}
	return entrancePlain
}

// logFields returns fields for the log that say which connection it is, and more.
func (s *session) logFields(more ...any) []any {
	fields := []any{"conn", uint64(s.holder)}
	if s.name != "" {
		fields = append(fields, "client", s.name)
	}
	return append(fields, more...)
}
