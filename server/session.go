package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

const (
	// maxBurst bounds how many commands of one connection go to the store
	// together.
	maxBurst = 64

	// maxBurstBytes bounds the bodies in such a burst; one body may be larger.
	maxBurstBytes = 1 << 20

	// flushAt is how many bytes of replies are written before more commands
	// are looked at.
	flushAt = 64 << 10

	// maxFills is how many reads a connection gets before others have their
	// turn.
	maxFills = 16
)

// session is one connection. It never blocks: whatever happens to it is a
// signal, and whoever signals runs it until there is nothing left to do but to
// wait for the next one. One goroutine runs it at a time; all fields but
// events belong to that goroutine.
type session struct {
	server *Server
	wire   wire
	in     *protocol.Reader
	out    *protocol.Writer
	log    *slog.Logger // nil unless commands are logged
	holder tube.Holder

	events   atomic.Uint32 // signals not yet looked at, and running
	gone     chan struct{} // closed when it has ended
	phase    phase
	readable bool // the wire may have something
	fills    int  // reads since the wire last signalled
	reads    uint64
	cause    error // why the connection ends

	used    string
	watched watchlist
	parting []string // tubes that it has to stop watching as it ends

	command  protocol.Command // the one being planned
	held     bool             // command was read but must wait for a reserve before it
	requests []request
	next     int  // of requests: the first without its reply
	blocking bool // a request of this burst may have to wait
	waited   bool // one had to, so that what was taken after it is out of date
	knocks   uint64
	bytes    int  // of bodies in this burst
	looks    int  // tubes that are named or looked in by this burst
	heavy    bool // others should have their turn before the next burst
	batch    storage.Batch
	again    storage.Batch // see retake

	waiter  *waiter // in phase waiting
	limit   time.Time
	lapsed  bool // the hall was told that the limit has come
	timer   *time.Timer
	leaving bool // the hall was told so while serving
	vigil   vigil
	pause   time.Duration // between looks while settling

	halfClosed       bool // the client will send no more
	quit             bool
	producer, worker bool
}

// phase is what a session is in the middle of.
type phase uint8

const (
	acting   phase = iota // nothing: it reads, plans and answers
	storing               // the store has its batch
	waiting               // it is in the hall
	ending                // the store gives back what it held
	settling              // the last replies are on their way
	ended
)

// The signals of a session. running is set while a goroutine runs it.
const (
	running uint32 = 1 << iota
	begun
	woken  // by the wire
	stored // the store is done
	served // by the hall
	late   // the timer rang
	swept  // time to look at the limits
	halted // the server closes
	doomed // the server has waited long enough
)

// request is a command that was read, on its way to its reply.
type request struct {
	verb     protocol.Verb
	fault    protocol.Fault
	counted  bool
	producer bool           // makes the connection one
	waits    bool           // a reserve that waits if there is no job
	op       int            // index in batch.Ops, -1 if it needs none
	name     string         // of a tube
	names    []string       // of tubes
	watching int            // how many tubes are watched
	timeout  time.Duration  // of a reserve
	fresh    bool           // a reserve that was retaken
	waited   bool           // a reserve that has been in the hall
	word     func(*session) // the reply, if it is known already
}

func newSession(s *Server, holder tube.Holder) *session {
	ss := &session{server: s, holder: holder, gone: make(chan struct{}), used: tube.Default, watched: newWatchlist(tube.Default)}
	ss.batch.Done = func() { ss.signal(stored, nil) }
	ss.again.Done = ss.batch.Done
	ss.vigil.quietSince = time.Now()
	ss.events.Store(running) // until begin has set all fields
	if s.log.Enabled(context.Background(), slog.LevelDebug) {
		ss.log = s.log.With("conn", uint64(holder))
	}
	return ss
}

// begin serves a connection.
func (s *session) begin(conn net.Conn) {
	s.server.log.Info("connection accepted", "conn", uint64(s.holder), "from", conn.RemoteAddr())
	s.wire = s.server.newWire(conn, s.wake)
	s.in = protocol.NewReader(s.wire, s.server.config.MaxJobSize)
	s.out = protocol.NewWriter(s.wire)
	s.events.Or(begun)
	s.run(nil)
}

func (s *session) wake(t *turn) { s.signal(woken, t) }

// signal tells the session that something has happened, and runs it unless
// another goroutine does. t is the turn of the loop that calls, nil elsewhere.
func (s *session) signal(event uint32, t *turn) {
	if s.events.Or(event|running)&running == 0 {
		s.run(t)
	}
}

// run looks at signals until there are none. It is called with running set.
func (s *session) run(t *turn) {
	for {
		events := s.events.Swap(running) &^ running
		if events == 0 && s.events.CompareAndSwap(running, 0) {
			return
		}
		s.note(events, t)
		for s.step(t) {
		}
	}
}

// note takes down what signals mean.
func (s *session) note(events uint32, t *turn) {
	if events&begun != 0 {
		s.attend(tube.Using, 1, s.used)
		s.attend(tube.Watching, 1, tube.Default)
		s.submit(t)
	}
	if events&woken != 0 {
		s.readable, s.fills = true, 0
	}
	if events&doomed != 0 && s.phase != ended {
		s.wire.Cut()
	}
	if events&stored != 0 {
		s.noteStored(t)
	}
	if events&swept != 0 {
		s.inspect(time.Now(), t)
	}
}

func (s *session) noteStored(t *turn) {
	switch s.phase {
	case storing:
		s.phase = acting
		if s.vigil.asking {
			s.noteHoldings(t)
		}
	case ending:
		s.notePart(t)
	}
}

// step does the next thing. It returns false when there is nothing to do
// before the next signal.
func (s *session) step(t *turn) bool {
	switch s.phase {
	case waiting:
		return s.wait()
	case acting:
		if more, err := s.act(t); err != nil {
			s.end(err, t)
		} else {
			return more
		}
	case settling:
		s.settle()
	}
	return false
}

// act answers what can be answered, or plans what has come, or reads.
func (s *session) act(t *turn) (more bool, err error) {
	switch {
	case s.wire.Kept() > 0:
		return false, nil // the client reads too little: nothing is done for it until it does
	case s.next < len(s.requests):
		return s.answer(t)
	case s.heavy:
		s.heavy = false
		s.wire.Again()
		return false, nil
	case s.collect():
		s.submit(t)
		return true, nil
	case s.out.Buffered() > 0:
		return true, s.out.Flush()
	case s.quit:
		return false, errQuit
	case s.halfClosed:
		s.noteBegun()
		return false, errHalfClosed
	case s.server.closing.Load():
		return false, ErrServerClosed
	case !s.readable:
		s.noteBegun()
		return false, nil
	case s.fills == maxFills:
		s.wire.Again()
		return false, nil
	}
	s.fills++
	return true, s.fill()
}

var (
	errQuit       = errors.New("quit")
	errHalfClosed = errors.New("client closed")
)

// fill reads once. The end of the client's sending is not an error but noted
// in halfClosed.
func (s *session) fill() error {
	s.noteBegun()
	return s.noteRead(s.in.Fill())
}

// noteBegun counts a put whose body is still to come.
func (s *session) noteBegun() {
	counted, producer := s.in.Begun()
	if counted {
		s.server.figures.commands[protocol.Put].Add(1)
	}
	s.noteProducer(producer)
}

// noteRead sorts out how a read has ended.
func (s *session) noteRead(err error) error {
	switch {
	case err == nil:
		s.reads++
		s.readable = s.wire.More()
		return nil
	case errors.Is(err, errNothing):
		s.readable = false
		return nil
	case isEOF(err):
		s.readable, s.halfClosed = false, true
		return nil
	}
	return err
}

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// collect plans the commands that have come, as many as may go to the store
// together, and returns whether there is any.
func (s *session) collect() bool {
	s.forget()
	s.watched.returned()
	s.requests, s.next, s.bytes, s.looks = s.requests[:0], 0, 0, 0
	s.blocking, s.waited = false, false
	for len(s.requests) < maxBurst && s.bytes < maxBurstBytes && s.looks < maxLooks && !s.quit {
		if !s.held && !s.in.Next(&s.command) {
			break
		}
		if s.held = s.mustHold(s.command.Verb); s.held {
			s.command.Name = slices.Clone(s.command.Name) // outlives reading on
			break
		}
		s.plan(&s.command)
	}
	return len(s.requests) > 0
}

// mustHold tells whether a command of this verb must wait for what was planned
// before it: for a reserve that may have to wait, or because it would have to copy
// a long list that is lent.
func (s *session) mustHold(v protocol.Verb) bool {
	return s.blocking && !isReserve(v) || v == protocol.Ignore && s.watched.lent && s.watched.many()
}

func isReserve(v protocol.Verb) bool {
	return v == protocol.Reserve || v == protocol.ReserveWithTimeout
}

// submit has the store carry out what was planned, with a turn at its end.
func (s *session) submit(t *turn) {
	if len(s.batch.Ops) == 0 {
		s.heavy = s.looks >= maxLooks // or others would not have their turn
		return
	}
	if s.blocking {
		s.knocks = s.server.hall.knocks.Load()
	}
	s.phase = storing
	s.hand(&s.batch, t)
}

// hand has the store carry out b at the end of this turn or of the next one.
// Without a turn it must not call the store by itself: whoever runs the session
// may be the store, in a Done in which many others are waiting for theirs, and
// to which a store that writes in the caller's goroutine would come back.
func (s *session) hand(b *storage.Batch, t *turn) {
	if t != nil {
		t.batches = append(t.batches, b)
		return
	}
	s.wire.Hand(b)
}

// answer writes the replies of the burst, as far as the store has answered and
// the client reads.
func (s *session) answer(t *turn) (more bool, err error) {
	for s.phase == acting && s.next < len(s.requests) {
		r := &s.requests[s.next]
		switch {
		case s.stale(r):
			s.retake(r, t)
			return true, nil
		case s.mustWait(r):
			return true, s.enterHall(r)
		}
		s.next++
		s.reply(r)
		if s.out.Buffered() >= flushAt {
			return true, s.out.Flush()
		}
	}
	return true, nil
}

// forget lets go of bodies and pages.
func (s *session) forget() {
	clear(s.batch.Ops)
	s.batch.Ops = s.batch.Ops[:0]
}

// reply writes the reply to a command that need not wait any more.
func (s *session) reply(r *request) {
	s.count(r)
	s.respond(r)
	if s.log != nil {
		s.log.Debug("command", "verb", r.verb.String(), "reply", s.out.Last())
	}
}

// count counts a command, when it is answered or begins to wait, and what it
// makes of the connection.
func (s *session) count(r *request) {
	s.noteProducer(r.producer)
	if isReserve(r.verb) && r.fault == protocol.NoFault {
		s.becomeWorker()
	}
	if r.counted {
		r.counted = false
		s.server.figures.commands[r.verb].Add(1)
	}
}

func (s *session) respond(r *request) {
	switch {
	case r.fault != protocol.NoFault:
		s.out.Fault(r.fault)
		return
	case r.word != nil:
		r.word(s)
		return
	case r.op < 0:
		handlers[r.verb].answer(s, r, nil)
		return
	}
	a := &s.batch.Ops[r.op].Answer
	switch {
	case a.Err != nil:
		s.fail(r, a.Err)
	case a.NotFound && isReserve(r.verb):
		s.noJob(r, a)
	case a.NotFound:
		s.out.NotFound()
	default:
		handlers[r.verb].answer(s, r, a)
	}
}

// fail answers a command that the store could not do.
func (s *session) fail(r *request, err error) {
	full := errors.Is(err, storage.ErrNoSpace)
	if !full || s.server.full.begins(time.Now()) { // every put may be refused for long, and the store says why
		s.server.log.Warn("the store failed", "verb", r.verb.String(), "err", err)
	}
	if full {
		s.out.OutOfMemory()
	} else {
		s.out.InternalError()
	}
}

// attend plans that this connection begins or ends to use or watch tubes.
func (s *session) attend(role tube.Role, delta int, names ...string) {
	s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.Attend, Role: role, Delta: delta, Tubes: names})
}

// end begins the end of the connection: the store gives back everything that
// it has.
func (s *session) end(cause error, t *turn) {
	s.cause, s.phase = cause, ending
	s.forget()
	s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.Leave, Holder: s.holder})
	s.parting = s.watched.empty()
	s.part(maxParting, t)
}

// maxParting is how many tubes a connection stops watching at once, so that one
// that watches very many does not hold up all others when it ends.
const maxParting = 500

// part goes on with the end: up to n tubes are not watched any more.
func (s *session) part(n int, t *turn) {
	n = min(n, len(s.parting))
	s.attend(tube.Watching, -1, s.parting[:n]...)
	if s.parting = s.parting[n:]; len(s.parting) == 0 {
		s.attend(tube.Using, -1, s.used)
	}
	s.hand(&s.batch, t)
}

// notePart goes on with the end when the store has done a part of it. If the store
// fails the rest is handed over together.
func (s *session) notePart(t *turn) {
	n, parted := maxParting, len(s.parting) == 0
	for i := range s.batch.Ops {
		if err := s.batch.Ops[i].Answer.Err; err != nil {
			n = len(s.parting)
			if !errors.Is(err, storage.ErrClosed) {
				s.server.log.Warn("what a closed connection held is given back late", "conn", uint64(s.holder), "err", err)
			}
			break
		}
	}
	if parted {
		s.depart()
		return
	}
	s.forget()
	s.part(n, t)
}

// depart is the rest of the end, when the store is done.
func (s *session) depart() {
	if s.producer {
		s.server.figures.producers.Add(-1)
	}
	if s.worker {
		s.server.figures.workers.Add(-1)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.phase, s.pause = settling, settlePause
}

// settlePause is after what time a connection is looked at again whose last
// replies have not all arrived. It grows with every look.
const settlePause = time.Millisecond

// settle closes the connection: at once if the client has ended it, else when
// the last replies have arrived. A client that does not expect the end of a
// server that stops may still be sending, which would cost it the rest of the
// replies if the connection were closed already.
func (s *session) settle() {
	if errors.Is(s.cause, ErrServerClosed) && !s.wire.Settled() {
		s.setTimer(s.pause)
		s.pause = min(2*s.pause, 64*settlePause)
		return
	}
	s.phase = ended
	s.wire.Close()
	s.server.log.Info("connection closed", "conn", uint64(s.holder), "cause", s.cause)
	s.server.exit(s)
}
