package server

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// This file bounds what is kept for all clients together that do not read their replies.
// A session that keeps replies does nothing more for its client, so each keeps those of
// one burst at most; but there may be many.

// unreadCheck is how often it is looked whether clients leave too much unread. For about
// twice as long it may be more than the bound.
const unreadCheck = time.Second

// errUnread ends a connection whose replies take memory that others need.
var errUnread = errors.New("the replies that clients have not read take too much memory")

// slowReader is a session whose client has replies to read.
type slowReader struct {
	session *session
	unread  int64  // bytes
	drained uint64 // of the wire
}

// unreadGuard has the sessions end that are in the way.
type unreadGuard struct {
	most   int64
	before map[*session]uint64 // what their wires had drained when there was too much; nil if there was not
}

// inspect returns whose connections have to end, so that what all have unread is within
// the bound. At first that is nobody: who reads something until the next time stays
// longer than who reads nothing. Among equals those with most unread go first.
func (g *unreadGuard) inspect(all []slowReader) (over []*session) {
	sum := int64(0)
	for _, r := range all {
		sum += r.unread
	}
	before := g.before
	if g.before = nil; sum <= g.most {
		return nil
	}
	g.before = make(map[*session]uint64, len(all))
	for _, r := range all {
		g.before[r.session] = r.drained
	}
	if before == nil {
		return nil
	}
	reads := func(r slowReader) int {
		if drained, known := before[r.session]; !known || r.drained > drained {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b slowReader) int {
		return cmp.Or(cmp.Compare(reads(a), reads(b)), cmp.Compare(b.unread, a.unread))
	})
	for _, r := range all {
		if sum <= g.most {
			break
		}
		sum -= r.unread
		over = append(over, r.session)
	}
	return over
}

// slowReaders returns the sessions whose clients have replies to read.
func (s *Server) slowReaders() (all []slowReader) {
	for _, ss := range s.all() {
		if unread := ss.unread.Load(); unread > 0 {
			all = append(all, slowReader{ss, unread, ss.wire.Drained()})
		}
	}
	return all
}

// noteUnread takes down how much memory the replies take that the client has not read:
// those that the wire keeps, and those of the burst that are not written yet.
func (s *session) noteUnread() {
	unread := int64(s.wire.Kept())
	if unread > 0 {
		for _, r := range s.requests[s.next:] {
			if r.op >= 0 {
				unread += int64(len(s.batch.Ops[r.op].Answer.Body))
			}
		}
	}
	s.unread.Store(unread)
}

// giveWay ends a connection whose client has left too much unread.
func (s *session) giveWay() {
	if s.phase == acting {
		s.end(errUnread)
	} else if s.phase < ending {
		s.cause = errUnread
	}
}
