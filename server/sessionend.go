package server

import (
	"errors"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Reasons why a connection ends, besides ErrServerClosed and errors of its wire.
var (
	errQuit       = errors.New("quit")
	errHalfClosed = errors.New("client closed")
	errStalled    = errors.New("the client did not read its replies")
	errIdle       = errors.New("idle")
)

// end begins to end the session: it makes the store release everything that the connection
// holds. If the server ends, it leaves that to the store: then the reservations do not count.
func (s *session) end(cause error) {
	s.cause, s.phase = cause, ending
	s.stopEndWait()
	s.releaseAnswers()
	s.batch.Ops = append(s.batch.Ops, s.giveBack...)
	if !errors.Is(cause, ErrServerClosed) {
		s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.ReleaseAll, Holder: s.holder})
	}
	s.unwatching = s.watched.removeAll()
	s.unwatchSome(maxUnwatch)
}

// maxUnwatch is how many tubes a connection stops watching in one batch, so that one that watches
// very many does not delay all others when it ends.
const maxUnwatch = 250

// unwatchSome continues the end of the session: it stops watching up to n tubes.
func (s *session) unwatchSome(n int) {
	n = min(n, len(s.unwatching))
	s.addRef(tube.Watching, -1, s.unwatching[:n]...)
	if s.unwatching = s.unwatching[n:]; len(s.unwatching) == 0 {
		s.addRef(tube.Using, -1, s.used)
	}
	s.submitter.Submit(&s.batch)
}

// onUnwatched continues the end of the session when the store has carried out a batch of it. If the
// store fails, the rest becomes one batch.
func (s *session) onUnwatched() {
	n, last := maxUnwatch, len(s.unwatching) == 0
	for i := range s.batch.Ops {
		if err := s.batch.Ops[i].Answer.Err; err != nil {
			n = len(s.unwatching)
			if !errors.Is(err, storage.ErrClosed) {
				s.server.log.Warn("the store failed to release what a closed connection held", "conn", uint64(s.holder), "err", err)
			}
			break
		}
	}
	if last {
		s.finishEnd()
		return
	}
	s.releaseAnswers()
	s.unwatchSome(n)
}

// finishEnd is the rest of the end, after the store is done.
func (s *session) finishEnd() {
	s.releaseAnswers()
	s.in.Close()
	s.updateArrival()
	takeBuffer(&s.command).Release() // of a command that was held
	if s.producer {
		s.queue.Counters.Producers.Add(-1)
	}
	if s.worker {
		s.queue.Counters.Workers.Add(-1)
	}
	s.principal.close(s.server)
	if s.name != "" {
		s.queue.ForgetClient(s.holder)
	}
	s.phase, s.closeDelay = delivering, minCloseDelay
}

// minCloseDelay is after what time tryClose first checks again whether the client has received the
// last replies. The delay doubles each time, up to 64 times as long.
const minCloseDelay = time.Millisecond

// tryClose closes the connection: at once if the client has ended it, else when the client has
// received the last replies. When the server stops, a client that does not expect that can still
// be sending. If the connection were closed already, the client would lose the rest of the
// replies.
func (s *session) tryClose() {
	if errors.Is(s.cause, ErrServerClosed) && !s.wire.Delivered() {
		s.setTimer(s.closeDelay)
		s.closeDelay = min(2*s.closeDelay, 64*minCloseDelay)
		return
	}
	s.phase = ended
	s.wire.Close()
	s.server.log.Info("connection closed", s.logFields("cause", s.cause)...)
	s.server.exit(s)
}

func (s *session) setTimer(in time.Duration) {
	if s.timer == nil {
		s.timer = time.AfterFunc(in, func() { s.signal(timerFired) })
		return
	}
	s.timer.Reset(in)
}
