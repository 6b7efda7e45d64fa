package server

import (
	"context"
	"log/slog"
	"net"
	"time"

	"redstalk/protocol"
	"redstalk/server/netpoll"
	"redstalk/tube"
)

func newSession(s *Server, holder tube.Holder) *session {
	ss := &session{
		server: s, queue: s.queue, schedules: s.config.Schedules, batches: s.config.Batches, holder: holder, done: make(chan struct{}),
		used: tube.Default, watched: newWatchlist(tube.Default),
	}
	ss.waiter = s.queue.NewWaiter(holder, func() { ss.signal(served) })
	ss.batch.Done = func() { ss.signal(stored) }
	ss.followUp.Done = ss.batch.Done
	ss.idleCheck.idleSince = time.Now()
	ss.signals.Store(running) // until begin has set all fields
	if s.log.Enabled(context.Background(), slog.LevelDebug) {
		ss.log = s.log.With("conn", uint64(holder))
	}
	return ss
}

// begin starts to serve a connection.
func (s *session) begin(conn net.Conn) {
	s.from, s.began = conn.RemoteAddr(), time.Now()
	s.entrance = entranceOf(conn, s.from.Network())
	s.server.log.Info("connection accepted", "conn", uint64(s.holder), "from", s.from)
	s.wire = s.server.poller.NewWire(conn, s.wake)
	s.in = protocol.NewReader(s.wire, s.queue.MaxJobSize())
	s.in.UseBuffers(s.server.newBuffer)
	s.out = protocol.NewWriter(s.wire)
	if s.server.config.Access != nil {
		s.principal = newPrincipal(s, conn)
	}
	s.signals.Or(begun)
	if s.wire.Readable() { // bytes that came with a TLS handshake raise no further event
		s.signals.Or(woken)
	}
	s.run(s.wire)
}

// wake is how the wire wakes the session. If that runs the session, its batches go to sub.
func (s *session) wake(sub netpoll.Submitter) {
	if s.raise(woken) {
		s.run(sub)
	}
}

// run handles signals until there are none. It is called with running set.
func (s *session) run(sub netpoll.Submitter) {
	s.submitter = sub
	for {
		signals := s.signals.Swap(running) &^ running
		if signals == 0 && s.signals.CompareAndSwap(running, 0) {
			return
		}
		s.handleSignals(signals)
		for s.step() {
		}
		s.flushCounts()
	}
}

// handleSignals updates the state of the session according to signals.
func (s *session) handleSignals(signals uint32) {
	if signals&begun != 0 {
		s.addRef(tube.Using, 1, s.used)
		s.addRef(tube.Watching, 1, tube.Default)
		s.submit()
	}
	if signals&woken != 0 {
		s.readable, s.fills = true, 0
	}
	if signals&forceClose != 0 && s.phase != ended {
		s.wire.Abort()
	}
	if signals&stored != 0 {
		s.onStored()
	}
	if signals&(jobEnded|timerFired) != 0 {
		s.endWait.askAgain = true
	}
	if signals&replyMemoryNeeded != 0 && s.wire.PendingBytes() > 0 {
		s.endForMemory(errUnread)
	}
	if signals&bodyMemoryNeeded != 0 && s.arrival != nil {
		s.endForMemory(errSlow)
	}
	if signals&verified != 0 && s.phase == verifying || signals&asked != 0 && s.phase == asking {
		s.phase = acting
	}
	if signals&describe != 0 {
		s.answerInquiry()
	}
	if signals&aclChanged != 0 && s.principal != nil {
		s.reloadPrincipal()
	}
	if signals&checkTime != 0 {
		s.checkTimeLimits(time.Now())
	}
}

func (s *session) onStored() {
	switch s.phase {
	case storing:
		s.phase = acting
		if s.idleCheck.askingHoldings {
			s.onHoldings()
		}
	case ending:
		s.onUnwatched()
	}
}

// step takes the next step. It returns false if there is nothing to do before the next signal.
func (s *session) step() bool {
	switch s.phase {
	case waiting:
		return s.stepWaiting()
	case awaitingEnd:
		return s.stepAwaitingEnd()
	case verifying:
		return s.stepVerifying()
	case asking:
		return s.stepAsking()
	case acting:
		if s.principal != nil && s.principal.endCause != nil {
			s.end(s.principal.endCause)
			return false
		}
		more, err := s.act()
		if err != nil {
			s.end(err)
			return false
		}
		return more
	case delivering:
		s.tryClose()
	}
	return false
}

// maxFills is how many reads a connection gets before the loop serves others.
const maxFills = 16

// act answers what can be answered, or else plans what has come, or else reads.
func (s *session) act() (more bool, err error) {
	switch {
	case s.wire.PendingBytes() > 0:
		s.updateUnread()
		return false, nil // nothing is done for a client until it has read its replies
	case s.unread.Load() > 0:
		s.updateUnread()
		return true, nil
	case s.next < len(s.requests):
		return s.answer()
	case s.yieldFirst:
		s.yieldFirst = false
		s.wire.WakeLater()
		return false, nil
	case s.collect():
		s.submit()
		return true, nil
	case s.out.Buffered() > 0:
		return true, s.out.Flush()
	case (s.quit || s.halfClosed) && s.wire.Flush() > 0:
		s.updateUnread()
		return false, nil // the client has to read the last replies first
	case s.quit:
		return false, errQuit
	case s.halfClosed:
		s.countBegun()
		return false, errHalfClosed
	case s.server.closing.Load():
		return false, ErrServerClosed
	case !s.readable:
		s.countBegun()
		return false, nil
	case s.fills == maxFills:
		s.wire.WakeLater()
		return false, nil
	case !s.mayReceive():
		return false, nil
	}
	s.fills++
	return true, s.fill()
}
