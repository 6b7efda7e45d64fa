package server

import (
	"errors"

	"redstalk/server/limits"
)

// This file limits the memory of replies that clients do not read, over all clients (package limits).
// A session with buffered replies does nothing more for its client, so each buffers the replies of
// one burst at most; but there can be many sessions.

// errUnread ends a connection whose replies use memory that others need.
var errUnread = errors.New("replies that clients have not read use too much memory")

// slowReader is a session whose client has replies to read. It implements limits.Reader.
type slowReader struct{ *session }

// Unread implements limits.Reader.
func (r slowReader) Unread() (bytes int64, read uint64) { return r.unread.Load(), r.wire.Drained() }

// GiveWay implements limits.Reader.
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

// updateUnread updates s.unread: the memory of the replies that the wire buffers, and of those of the
// burst that are not written yet.
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

// endForMemory ends a connection whose memory others need.
func (s *session) endForMemory(cause error) {
	if s.phase == acting {
		s.end(cause)
	} else if s.phase < ending {
		s.cause = cause
	}
}
