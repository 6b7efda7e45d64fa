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

// session is one connection. It never blocks. Whatever happens to it is a signal.
// The goroutine that signals runs the session until there is nothing to do before
// the next signal, unless another goroutine is running it already. So one goroutine
// runs it at a time, and all fields but events belong to that goroutine.
//
// plan.go has how commands become operations, answer.go how answers become
// replies, reserve.go the way of a reserve that waits, end.go how it ends.
type session struct {
	server *Server
	queue  *queue.Queue
	wire   netpoll.Wire
	in     *protocol.Reader
	out    *protocol.Writer
	log    *slog.Logger // nil unless commands are logged
	holder tube.Holder

	signals   atomic.Uint32 // signals not yet looked at, and running
	done      chan struct{} // closed when it has ended
	phase     phase
	submitter netpoll.Submitter // the turn of the loop that runs it, else its wire
	readable  bool              // the wire may have something
	fills     int               // reads since the wire last signalled
	reads     uint64
	cause     error // why the connection ends

	used       string
	watched    watchlist
	unwatching []string // tubes that it has to stop watching as it ends

	command    protocol.Command // the one being planned
	held       bool             // command was read but must wait for a reserve before it
	requests   []request
	next       int  // of requests: the first without its reply
	blocking   bool // a request of this burst may have to wait
	waited     bool // one had to, so that what was taken after it is out of date
	endsBurst  bool // the last request ends its burst
	bytes      int  // of bodies in this burst
	tubes      int  // that are named or looked in by this burst
	yieldFirst bool // others should have their turn before the next burst
	batch      storage.Batch
	followUp   storage.Batch // see retake

	wakeUps     uint64        // of the queue before the burst's takes
	waiter      *queue.Waiter // waits for what the connection is to hold
	leaseWaiter *queue.Waiter // waits for leases; nil until one was waited for
	waiting     *queue.Waiter // the one of the two that waits in phase waiting, or was the last to
	giveBack    []storage.Op  // what gives back a job that came when the client was gone
	cancelling  bool          // its wait was cancelled while a round served it

	counts pendingCounts

	arrival *limits.Arrival // the body of which a part has come, see incoming.go

	unread atomic.Int64 // bytes of replies that the client has not read, see noteUnread

	principal *principal // who the client is; nil: everybody may do everything

	timer      *time.Timer // of phase delivering
	closeDelay time.Duration
	idleCheck  idleCheck

	halfClosed       bool // the client will send no more
	quit             bool
	producer, worker bool
}

// phase is what a session is in the middle of.
type phase uint8

const (
	acting     phase = iota // nothing: it reads, plans and answers
	storing                 // the store has its batch
	waiting                 // a reserve waits for a job
	verifying               // it is being found out who the client is
	ending                  // the store gives back what it held
	delivering              // the last replies are on their way
	ended
)

// The signals of a session. running is set while a goroutine runs it.
const (
	running uint32 = 1 << iota
	begun
	woken             // by the wire
	stored            // the store is done
	served            // the wait has an outcome
	verified          // it is known whether the client is who it says
	aclChanged        // the file of users has changed
	timerFired        // the timer has fired
	checkTime         // time to look at the limits
	replyMemoryNeeded // the memory of its replies is needed
	bodyRoom          // there is room for the rest of a body
	bodyMemoryNeeded  // the memory of that body is needed
	shutdown          // the server closes
	forceClose        // the server has waited long enough
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

// begin serves a connection.
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
	if s.wire.Readable() { // what came with a handshake raises no event any more
		s.signals.Or(woken)
	}
	s.run(s.wire)
}

// wake signals that the wire has something. If that runs the session, its batches
// go to that outbox.
func (s *session) wake(to netpoll.Submitter) {
	if s.raise(woken) {
		s.run(to)
	}
}

// signal tells the session that something has happened, and runs it unless
// another goroutine does.
//
// It hands over batches through the wire. The store must not be called from here:
// the caller may be the store, in a Done in which many others are waiting for
// theirs, and to which a store that writes in the caller's goroutine would come
// back.
func (s *session) signal(event uint32) {
	if s.raise(event) {
		s.run(s.wire)
	}
}

// raise notes a signal, and returns whether the caller is to run the session: then
// running is set, and stays set until run returns.
func (s *session) raise(event uint32) bool {
	return s.signals.Or(event|running)&running == 0
}

// run looks at signals until there are none. It is called with running set.
func (s *session) run(to netpoll.Submitter) {
	s.submitter = to
	for {
		events := s.signals.Swap(running) &^ running
		if events == 0 && s.signals.CompareAndSwap(running, 0) {
			return
		}
		s.handleSignals(events)
		for s.step() {
		}
		s.flushCounts()
	}
}

// note takes down what signals mean.
func (s *session) handleSignals(events uint32) {
	if events&begun != 0 {
		s.addRef(tube.Using, 1, s.used)
		s.addRef(tube.Watching, 1, tube.Default)
		s.submit()
	}
	if events&woken != 0 {
		s.readable, s.fills = true, 0
	}
	if events&forceClose != 0 && s.phase != ended {
		s.wire.Abort()
	}
	if events&stored != 0 {
		s.onStored()
	}
	if events&replyMemoryNeeded != 0 && s.wire.PendingBytes() > 0 {
		s.endForMemory(errUnread)
	}
	if events&bodyMemoryNeeded != 0 && s.arrival != nil {
		s.endForMemory(errSlow)
	}
	if events&verified != 0 && s.phase == verifying {
		s.phase = acting
	}
	if events&aclChanged != 0 && s.principal != nil {
		s.reloadPrincipal()
	}
	if events&checkTime != 0 {
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

// step does the next thing. It returns false when there is nothing to do
// before the next signal.
func (s *session) step() bool {
	switch s.phase {
	case waiting:
		return s.stepWaiting()
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

// act answers what can be answered, or plans what has come, or reads.
func (s *session) act() (more bool, err error) {
	switch {
	case s.wire.PendingBytes() > 0:
		s.updateUnread()
		return false, nil // the client reads too little: nothing is done for it until it does
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
