package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
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
)

// session is one connection. All of it belongs to the goroutine in run, but
// for interrupt and closing conn, which anybody may do.
type session struct {
	server *Server
	conn   net.Conn
	in     *protocol.Reader
	out    *protocol.Writer
	log    *slog.Logger // nil unless commands are logged
	holder tube.Holder

	used    string
	watched []string // never changed in place: operations under way refer to it

	command  protocol.Command // the one being planned
	held     bool             // command was read but must wait for a reserve before it
	requests []request
	blocking bool // a request of this burst may have to wait
	waited   bool // one had to, so that what was taken after it is out of date
	knocks   uint64
	bytes    int // of bodies in this burst
	batch    storage.Batch
	done     chan struct{} // capacity 1: the batch is done
	served   chan storage.Answer

	halfClosed       bool // the client will send no more
	quit             bool
	producer, worker bool
}

// request is a command that was read, on its way to its reply.
type request struct {
	verb    protocol.Verb
	fault   protocol.Fault
	counted bool
	waits   bool           // a reserve that waits if there is no job
	op      int            // index in batch.Ops, -1 if it needs none
	name    string         // of a tube
	names   []string       // of tubes
	timeout time.Duration  // of a reserve
	word    func(*session) // the reply, if it is known already
}

func newSession(s *Server, conn net.Conn, holder tube.Holder) *session {
	ss := &session{
		server: s, conn: conn, holder: holder,
		in: protocol.NewReader(conn, s.config.MaxJobSize), out: protocol.NewWriter(conn),
		used: tube.Default, watched: []string{tube.Default},
		done: make(chan struct{}, 1), served: make(chan storage.Answer, 1),
	}
	ss.batch.Done = func() { ss.done <- struct{}{} }
	if s.log.Enabled(context.Background(), slog.LevelDebug) {
		ss.log = s.log.With("conn", uint64(holder))
	}
	return ss
}

// interrupt wakes the session from reading, to see that the server closes.
func (s *session) interrupt() { s.conn.SetReadDeadline(longAgo) }

// run serves the connection until it ends.
func (s *session) run() {
	defer s.conn.Close()
	s.server.log.Info("connection accepted", "conn", uint64(s.holder), "from", s.conn.RemoteAddr().String())
	s.attend(tube.Using, 1, s.used)
	s.attend(tube.Watching, 1, s.watched...)
	s.submit()
	s.forget()
	cause := s.serve()
	s.leave()
	s.server.log.Info("connection closed", "conn", uint64(s.holder), "cause", cause.Error())
}

// serve reads and answers until the connection ends, and returns why.
func (s *session) serve() error {
	for {
		for s.collect() {
			s.submit()
			if err := s.answer(); err != nil {
				return err
			}
			if s.quit {
				s.out.Flush()
				return errQuit
			}
			if s.out.Buffered() >= flushAt {
				if err := s.out.Flush(); err != nil {
					return err
				}
			}
		}
		if err := s.out.Flush(); err != nil {
			return err
		}
		if s.halfClosed {
			return errHalfClosed
		}
		if s.server.closing.Load() {
			return ErrServerClosed
		}
		if err := s.fill(); err != nil {
			return err
		}
	}
}

var (
	errQuit       = errors.New("quit")
	errHalfClosed = errors.New("client closed")
)

// fill reads once. The end of the client's sending is not an error but noted
// in halfClosed.
func (s *session) fill() error {
	counted, producer := s.in.Begun()
	if counted {
		s.server.figures.commands[protocol.Put].Add(1)
	}
	s.noteProducer(producer)
	err := s.in.Fill()
	switch {
	case err == nil:
		return nil
	case isEOF(err):
		s.halfClosed = true
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil // interrupted: whoever did it has left a sign
	}
	return err
}

// collect plans the commands that have come, as many as may go to the store
// together, and returns whether there is any.
func (s *session) collect() bool {
	s.requests, s.bytes = s.requests[:0], 0
	s.blocking, s.waited = false, false
	for len(s.requests) < maxBurst && s.bytes < maxBurstBytes && !s.quit {
		if !s.held && !s.in.Next(&s.command) {
			break
		}
		s.held = s.blocking && !isReserve(s.command.Verb)
		if s.held {
			s.command.Name = slices.Clone(s.command.Name) // outlives reading on
			break
		}
		s.plan(&s.command)
	}
	return len(s.requests) > 0
}

func isReserve(v protocol.Verb) bool {
	return v == protocol.Reserve || v == protocol.ReserveWithTimeout
}

// submit has the store carry out what was planned, and waits for that.
func (s *session) submit() {
	if len(s.batch.Ops) == 0 {
		return
	}
	if s.blocking {
		s.knocks = s.server.hall.knocks.Load()
	}
	s.server.store.Do(&s.batch)
	<-s.done
}

// answer writes the replies of the burst, waiting where a reserve must.
func (s *session) answer() error {
	for i := range s.requests {
		if err := s.reply(&s.requests[i]); err != nil {
			return err
		}
	}
	s.forget()
	return nil
}

// forget lets go of bodies and pages.
func (s *session) forget() {
	clear(s.batch.Ops)
	s.batch.Ops = s.batch.Ops[:0]
}

func (s *session) reply(r *request) error {
	if r.counted {
		s.server.figures.commands[r.verb].Add(1)
	}
	err := s.respond(r)
	if s.log != nil {
		s.log.Debug("command", "verb", r.verb.String(), "reply", s.out.Last())
	}
	return err
}

func (s *session) respond(r *request) error {
	switch {
	case r.fault != protocol.NoFault:
		s.out.Fault(r.fault)
	case r.word != nil:
		r.word(s)
	case r.op < 0:
		handlers[r.verb].answer(s, r, nil)
	default:
		s.refresh(r)
		a := &s.batch.Ops[r.op].Answer
		switch {
		case a.Err != nil:
			s.fail(r, a.Err)
		case a.NotFound && isReserve(r.verb):
			return s.noJob(r, a)
		case a.NotFound:
			s.out.NotFound()
		default:
			handlers[r.verb].answer(s, r, a)
		}
	}
	return nil
}

// fail answers a command that the store could not do.
func (s *session) fail(r *request, err error) {
	s.server.log.Warn("the store failed", "verb", r.verb.String(), "err", err)
	if errors.Is(err, storage.ErrNoSpace) {
		s.out.OutOfMemory()
	} else {
		s.out.InternalError()
	}
}

// attend plans that this connection begins or ends to use or watch tubes.
func (s *session) attend(role tube.Role, delta int, names ...string) {
	s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.Attend, Role: role, Delta: delta, Tubes: names})
}

// leave gives back everything the connection has.
func (s *session) leave() {
	s.forget()
	s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.Leave, Holder: s.holder})
	s.attend(tube.Using, -1, s.used)
	s.attend(tube.Watching, -1, s.watched...)
	s.submit()
	for i := range s.batch.Ops {
		if err := s.batch.Ops[i].Answer.Err; err != nil && !errors.Is(err, storage.ErrClosed) {
			s.server.log.Warn("what a closed connection held is given back late", "conn", uint64(s.holder), "err", err)
			break
		}
	}
	if s.producer {
		s.server.figures.producers.Add(-1)
	}
	if s.worker {
		s.server.figures.workers.Add(-1)
	}
}
