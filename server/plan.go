package server

import (
	"errors"
	"io"
	"slices"
	"time"

	"redstalk/protocol"
	"redstalk/server/netpoll"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

const (
	// maxBurst limits how many commands of one connection go to the store in one batch: a
	// burst.
	maxBurst = 64

	// maxBurstOps limits the operations of a burst. The last command can have any number.
	maxBurstOps = 4 * maxBurst

	// maxBurstBytes limits the bytes of the bodies in a burst. One body can be larger.
	maxBurstBytes = 1 << 20

	// maxBurstTubes limits the tubes in which a burst looks for jobs, or which it names. The
	// last command can do that for any number.
	maxBurstTubes = queue.MaxTubes

	// maxFills is how many reads a connection gets before the loop serves others.
	maxFills = 16
)

// request is a command that was read and is not answered yet.
type request struct {
	verb       protocol.Verb
	fault      protocol.Fault
	counted    bool
	producer   bool           // makes the connection a producer
	waits      bool           // a reserve: waits if there is no job
	op         int            // index in batch.Ops of its first operation, -1 if it needs none
	remaining  int            // reserve-batch: how many more jobs are wanted; delete-batch: how many ids there are
	answered   int            // reserve-batch: how many jobs were taken
	bytes      int            // reserve-batch: bytes of the bodies of those jobs
	bodyShare  int            // reserve-batch: limit for the body of each of the last takes, in bytes; 0: none
	single     bool           // reserve-batch: the next take is for one job
	name       string         // of a tube
	names      []string       // of tubes
	watchCount int            // how many tubes are watched
	timeout    time.Duration  // of a reserve
	retaken    bool           // a reserve: its take was repeated, see retake
	attempt    *authAttempt   // auth: the verification
	waited     bool           // a reserve: has waited
	reply      func(*session) // writes the reply, if that is known already

	waitsForLookup bool // see lookups.go
}

// fill reads once. The end of the stream is not an error: it sets halfClosed.
func (s *session) fill() error {
	s.countBegun()
	return s.handleRead(s.in.Fill())
}

// countBegun counts a command whose body has not come yet.
func (s *session) countBegun() {
	verb, counted, producer := s.in.Begun()
	if counted {
		s.countCommand(verb)
	}
	s.noteProducer(producer)
}

// handleRead handles the result of a read.
func (s *session) handleRead(err error) error {
	switch {
	case err == nil:
		s.reads++
		s.readable = s.wire.Readable()
		return nil
	case errors.Is(err, netpoll.ErrNoData):
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

// collect plans the commands that have come, as many as fit into a burst. It reports whether there
// is any.
func (s *session) collect() bool {
	s.releaseAnswers()
	s.watched.endLend()
	if s.principal != nil {
		s.principal.forgetLookups()
	}
	s.requests, s.next, s.bytes, s.tubes = s.requests[:0], 0, 0, 0
	s.blocking, s.waited, s.endsBurst = false, false, false
	for len(s.requests) < maxBurst && s.bytes < maxBurstBytes && s.tubes < maxBurstTubes && len(s.batch.Ops) < maxBurstOps && !s.quit && !s.endsBurst {
		if !s.held && !s.in.Next(&s.command) {
			break
		}
		if s.held = s.mustHold(s.command.Verb); s.held {
			// The names are in the read buffer, which is filled again before the command is
			// planned.
			c := &s.command
			c.Name, c.To, c.List, c.Secret = slices.Clone(c.Name), slices.Clone(c.To), slices.Clone(c.List), slices.Clone(c.Secret)
			break
		}
		s.plan(&s.command)
	}
	s.updateArrival()
	return len(s.requests) > 0
}

// mustHold reports whether a command of this verb must not be planned before the burst is answered:
// because a reserve before it may have to wait for a job, or lookups are under way, or the command
// would have to copy a long list that is lent to operations.
func (s *session) mustHold(v protocol.Verb) bool {
	return s.blocking && !isReserve(v) || s.principal != nil && s.principal.mustHold(v) || v == protocol.Ignore && s.watched.lent && s.watched.many()
}

// plan appends a command and its operations to the burst. It must copy what it keeps of the command,
// except the body: the rest is in the read buffer.
func (s *session) plan(c *protocol.Command) {
	s.requests = append(s.requests, request{verb: c.Verb, fault: c.Fault, counted: c.Counted, producer: c.Producer, op: -1})
	r := &s.requests[len(s.requests)-1]
	switch {
	case c.Fault == protocol.HTTPRequest:
		s.refuseHTTP(r)
	case s.principal != nil:
		s.planForPrincipal(c, r)
	case c.Fault == protocol.NoFault:
		handlers[c.Verb].plan(s, c, r)
	case c.Verb == protocol.Auth:
		r.fault = protocol.UnknownCommand // whatever its arguments are
	}
}

// refuseHTTP ends the connection as quit does. Nothing that follows an HTTP request is read as a
// command, because a web page can have chosen it.
func (s *session) refuseHTTP(r *request) {
	s.server.httpLog.Warn(s.server.log, "closed a connection on which HTTP is spoken: a web page that attacks, or a client with the wrong port", "conn", uint64(s.holder))
	r.verb, r.fault, s.quit = protocol.Quit, protocol.NoFault, true
}

// addOp appends an operation to the batch. r is answered with its answer.
func (s *session) addOp(r *request, op storage.Op) {
	r.op = len(s.batch.Ops)
	s.batch.Ops = append(s.batch.Ops, op)
}

// addRef appends an operation that counts this connection as a user or watcher of tubes (delta 1), or no
// longer (delta -1).
func (s *session) addRef(role tube.Role, delta int, names ...string) {
	s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.Ref, Role: role, Delta: delta, Tubes: names})
}

// submit submits the batch of the burst to the store.
func (s *session) submit() {
	if len(s.batch.Ops) == 0 {
		s.yieldFirst = s.tubes >= maxBurstTubes // the loop serves other connections first
		return
	}
	if s.blocking {
		s.wakeUps = s.queue.WakeUps()
	}
	s.phase = storing
	s.submitter.Submit(&s.batch)
}

// releaseAnswers empties the batch. It releases the bodies that were not passed to the writer.
func (s *session) releaseAnswers() {
	for i := range s.batch.Ops {
		s.batch.Ops[i].Answer.Buffer.Release()
	}
	clear(s.batch.Ops)
	s.batch.Ops = s.batch.Ops[:0]
}
