package server

import (
	"errors"

	"redstalk/server/limits"
)

// This file says what is kept for clients that do not read their replies, so that it is
// bounded over all of them. A session that keeps replies does nothing more for its client, so
// each keeps those of one burst at most; but there may be many.

// errUnread ends a connection whose replies take memory that others need.
var errUnread = errors.New("the replies that clients have not read take too much memory")

// slowReader is a session whose client has replies to read, as bounds knows it.
type slowReader struct{ *session }

// Unread implements bounds.Reader.
func (r slowReader) Unread() (bytes int64, read uint64) { return r.unread.Load(), r.wire.Drained() }

// GiveWay implements bounds.Reader.
func (r slowReader) GiveWay() { r.signal(replyMemoryNeeded) }

// slowReaders returns the sessions whose clients have replies to read.
func (s *Server) slowReaders() (all []limits.Reader) {
	for _, ss := range s.allSessions() {
		if ss.unread.Load() > 0 {
			all = append(all, slowReader{ss})
		}
	}
	return all
}

// noteUnread takes down how much memory the replies take that the client has not read:
// those that the wire keeps, and those of the burst that are not written yet.
func (s *session) updateUnread() {
	unread := int64(s.wire.PendingBytes())
	if unread > 0 {
		for _, r := range s.requests[s.next:] {
			if r.op >= 0 {
				unread += int64(len(s.batch.Ops[r.op].Answer.Body))
			}
		}
	}
	s.unread.Store(unread)
}

// giveWay ends a connection whose memory others need.
func (s *session) endForMemory(cause error) {
	if s.phase == acting {
		s.end(cause)
	} else if s.phase < ending {
		s.cause = cause
	}
}
