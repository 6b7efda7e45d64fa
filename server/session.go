package server

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"redstalk/protocol"
	"redstalk/server/limits"
	"redstalk/server/netpoll"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// session is the state machine of one connection. It never blocks. Everything that happens to it
// is a signal. The goroutine that signals runs the session until there is nothing to do before the
// next signal, unless another goroutine is running it already. So one goroutine runs it at a time,
// and all fields except signals belong to that goroutine.
//
// In plan.go commands become operations, in answer.go answers become replies. reserve.go has the
// reserve that waits, sessionend.go the end.
type session struct {
	server *Server
	queue  *queue.Queue
	wire   netpoll.Wire
	in     *protocol.Reader
	out    *protocol.Writer
	log    *slog.Logger // nil unless commands are logged
	holder tube.Holder

	signals   atomic.Uint32 // signals not handled yet, and running
	done      chan struct{} // closed when the session has ended
	phase     phase
	submitter netpoll.Submitter // the loop iteration that runs it, else its wire
	readable  bool              // the wire may have bytes
	fills     int               // reads since the wire last woke it
	reads     uint64
	cause     error // why the connection ends

	used       string
	watched    watchlist
	unwatching []string // tubes that it has to stop watching at its end

	command    protocol.Command // the one being planned
	held       bool             // command was read, but must wait until the burst before it is answered
	requests   []request
	next       int  // index of the first request without a reply
	blocking   bool // a reserve of this burst may have to wait
	waited     bool // a reserve of this burst has waited: answers of takes after it are out of date
	endsBurst  bool // the last request ends its burst
	bytes      int  // of bodies in this burst
	tubes      int  // that this burst names, or in which it looks for jobs
	yieldFirst bool // the loop serves others before the next burst
	batch      storage.Batch
	followUp   storage.Batch // operations of the same burst after those of batch; also askHoldings

	wakeUps     uint64        // of the queue, before the takes of the burst
	waiter      *queue.Waiter // for reserves of the connection
	leaseWaiter *queue.Waiter // for reserves by lease; nil before the first one that waits
	waiting     *queue.Waiter // that of the two that waits, or waited last
	giveBack    []storage.Op  // operations that give back a job which came after the client had gone
	cancelling  bool          // its wait was cancelled while a dispatch batch served it

	counts pendingCounts

	arrival *limits.Arrival // the body that has come in part, see incoming.go

	unread atomic.Int64 // bytes of replies that the client has not read, see updateUnread

	principal *principal // who the client is; nil: everybody may do everything

	timer      *time.Timer // of phase delivering
	closeDelay time.Duration
	idleCheck  idleCheck

	halfClosed       bool // the client has closed its half: nothing more will come
	quit             bool
	producer, worker bool
}

// phase is what a session is waiting for, if anything.
type phase uint8

const (
	acting     phase = iota // for nothing: it reads, plans and answers
	storing                 // for the store
	waiting                 // for a job
	verifying               // for the result of an auth
	ending                  // for the store to release what the connection held
	delivering              // for the client to receive the last replies
	ended
)

// The signals of a session. running is set while a goroutine runs it.
const (
	running uint32 = 1 << iota
	begun
	woken             // the wire woke it
	stored            // the store is done
	served            // the wait has an outcome
	verified          // an auth has its result
	aclChanged        // the file of users has changed
	timerFired        // the timer has fired
	checkTime         // time to check the time limits
	replyMemoryNeeded // other clients need the memory of its buffered replies
	bodyRoom          // there is memory for the rest of a body
	bodyMemoryNeeded  // other clients need the memory of that body
	shutdown          // the server closes
	forceClose        // the server stops waiting for its connections
)

func newSession(s *Server, holder tube.Holder) *session {
	ss := &session{
		server: s, queue: s.queue, holder: holder, done: make(chan struct{}),
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
	s.server.log.Info("connection accepted", "conn", uint64(s.holder), "from", conn.RemoteAddr())
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

// signal sends the session a signal, and runs it unless another goroutine does.
//
// The session then submits its batches through the wire. It must not call the store from here: the
// caller can be the store, in a Done while the Dones of other batches wait, and a store that writes
// in the caller's goroutine would recurse.
func (s *session) signal(sig uint32) {
	if s.raise(sig) {
		s.run(s.wire)
	}
}

// raise adds a signal. It reports whether the caller has to run the session: then running is set, and
// stays set until run returns.
func (s *session) raise(sig uint32) bool {
	return s.signals.Or(sig|running)&running == 0
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
	if signals&replyMemoryNeeded != 0 && s.wire.PendingBytes() > 0 {
		s.endForMemory(errUnread)
	}
	if signals&bodyMemoryNeeded != 0 && s.arrival != nil {
		s.endForMemory(errSlow)
	}
	if signals&verified != 0 && s.phase == verifying {
		s.phase = acting
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
	case verifying:
		return s.stepVerifying()
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
