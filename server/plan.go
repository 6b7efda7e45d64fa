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
	// maxBurst bounds how many commands of one connection go to the store
	// together.
	maxBurst = 64

	// maxBurstOps bounds the operations of such a burst. The last command may have
	// any number.
	maxBurstOps = 4 * maxBurst

	// maxBurstBytes bounds the bodies in such a burst; one body may be larger.
	maxBurstBytes = 1 << 20

	// maxBurstTubes bounds the tubes in which such a burst looks for jobs, or which
	// it names. The last command may do that for any number.
	maxBurstTubes = queue.MaxTubes

	// maxFills is how many reads a connection gets before others have their
	// turn.
	maxFills = 16
)

// request is a command that was read, on its way to its reply.
type request struct {
	verb       protocol.Verb
	fault      protocol.Fault
	counted    bool
	producer   bool           // makes the connection one
	waits      bool           // a reserve that waits if there is no job
	op         int            // index in batch.Ops of its first operation, -1 if it needs none
	remaining  int            // of many: how many jobs are asked for, and have not been taken
	answered   int            // reserve-batch: how many jobs were taken
	bytes      int            // reserve-batch: of their bodies
	bodyShare  int            // reserve-batch: how many bytes each of the last takes might bring; 0: any
	single     bool           // reserve-batch: the next take is for one job
	name       string         // of a tube
	names      []string       // of tubes
	watchCount int            // how many tubes are watched
	timeout    time.Duration  // of a reserve
	retaken    bool           // a reserve that was retaken
	attempt    *authAttempt   // auth: what is to be found out
	waited     bool           // a reserve that has waited
	reply      func(*session) // the reply, if it is known already

	waitsForLookup bool // see lookups.go
}

// fill reads once. The end of the client's sending is not an error but noted
// in halfClosed.
func (s *session) fill() error {
	s.countBegun()
	return s.handleRead(s.in.Fill())
}

// noteBegun counts a command whose body is still to come.
func (s *session) countBegun() {
	verb, counted, producer := s.in.Begun()
	if counted {
		s.countCommand(verb)
	}
	s.noteProducer(producer)
}

// noteRead sorts out how a read has ended.
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

// collect plans the commands that have come, as many as may go to the store
// together, and returns whether there is any.
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
			// The names are in the read buffer, into which more is read before the
			// command is planned.
			c := &s.command
			c.Name, c.To, c.List, c.Secret = slices.Clone(c.Name), slices.Clone(c.To), slices.Clone(c.List), slices.Clone(c.Secret)
			break
		}
		s.plan(&s.command)
	}
	s.updateArrival()
	return len(s.requests) > 0
}

// mustHold tells whether a command of this verb must wait for what was planned
// before it: for a reserve that may have to wait, or because it would have to copy
// a long list that is lent.
func (s *session) mustHold(v protocol.Verb) bool {
	return s.blocking && !isReserve(v) || s.principal != nil && s.principal.mustHold(v) || v == protocol.Ignore && s.watched.lent && s.watched.many()
}

// plan appends what is to be done for the command to the burst. Nothing of the
// command may be kept as it is but its body: the name is in the read buffer.
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
		r.fault = protocol.UnknownCommand // whatever follows the word
	}
}

// refuseHTTP ends the connection as quit does: nothing that follows a request of HTTP is looked
// at, because a web page may have chosen it.
func (s *session) refuseHTTP(r *request) {
	s.server.httpLog.Warn(s.server.log, "closed a connection on which HTTP is spoken: a web page that attacks, or a client with the wrong port", "conn", uint64(s.holder))
	r.verb, r.fault, s.quit = protocol.Quit, protocol.NoFault, true
}

// do appends the operation whose answer r is waiting for.
func (s *session) addOp(r *request, op storage.Op) {
	r.op = len(s.batch.Ops)
	s.batch.Ops = append(s.batch.Ops, op)
}

// attend appends that this connection begins or ends to use or watch tubes.
func (s *session) addRef(role tube.Role, delta int, names ...string) {
	s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.Ref, Role: role, Delta: delta, Tubes: names})
}

// submit has the store carry out what was planned.
func (s *session) submit() {
	if len(s.batch.Ops) == 0 {
		s.yieldFirst = s.tubes >= maxBurstTubes // or others would not have their turn
		return
	}
	if s.blocking {
		s.wakeUps = s.queue.WakeUps()
	}
	s.phase = storing
	s.submitter.Submit(&s.batch)
}

// forget lets go of bodies and pages. It releases the bodies that no reply was made of.
func (s *session) releaseAnswers() {
	for i := range s.batch.Ops {
		s.batch.Ops[i].Answer.Buffer.Release()
	}
	clear(s.batch.Ops)
	s.batch.Ops = s.batch.Ops[:0]
}
