package server

import (
	"errors"

	"redstalk/protocol"
	"redstalk/storage"
)

// flushAt is how many bytes of replies a session collects before it writes them and then
// continues to answer.
const flushAt = 64 << 10

// answer writes the replies of the burst, as far as the store has answered and the client reads.
// It returns more if the session has something else to do before the next signal.
func (s *session) answer() (more bool, err error) {
	for s.phase == acting && s.next < len(s.requests) {
		r := &s.requests[s.next]
		switch {
		case s.stale(r):
			s.retake(r)
			return true, nil
		case r.waitsForLookup:
			s.planLookups()
			continue
		case r.attempt != nil && !r.attempt.started:
			return true, s.startVerifying(r)
		case s.mustWait(r):
			return true, s.startWaiting(r)
		case s.wantsMoreJobs(r):
			s.takeMoreJobs(r)
			return true, nil
		}
		s.next++
		s.reply(r)
		if s.out.Buffered() >= flushAt {
			return true, s.out.Flush()
		}
	}
	return true, nil
}

// reply counts and answers a command that does not wait any more.
func (s *session) reply(r *request) {
	s.count(r)
	s.respond(r)
	s.countResult(r.verb)
	if s.log != nil {
		s.log.Debug("command", "verb", r.verb.String(), "reply", s.out.Last())
	}
}

// respond writes the reply to a command.
func (s *session) respond(r *request) {
	switch {
	case r.fault != protocol.NoFault:
		s.out.Fault(r.fault)
		return
	case r.reply != nil:
		r.reply(s)
		return
	case r.op < 0, hasSeveralOps(r.verb):
		handlers[r.verb].answer(s, r, nil)
		return
	}
	a := &s.batch.Ops[r.op].Answer
	switch {
	case a.Err != nil && a.Count > 0:
		s.server.log.Warn("the store failed in the middle of a command; the reply says what was done", "verb", r.verb.String(), "jobs", a.Count, "err", a.Err)
		handlers[r.verb].answer(s, r, a)
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

// fail answers a command that the store could not carry out.
func (s *session) fail(r *request, err error) {
	const failed = "the store failed"
	if errors.Is(err, storage.ErrTooBig) { // a limit of this store, below that of the server
		s.server.noSpaceLog.Warn(s.server.log, failed, "verb", r.verb.String(), "err", err)
		s.out.JobTooBig()
		return
	}
	if errors.Is(err, storage.ErrNoSpace) { // puts can fail for a long time, and the store logs why
		s.server.noSpaceLog.Warn(s.server.log, failed, "verb", r.verb.String(), "err", err)
		s.out.OutOfMemory()
		return
	}
	s.server.log.Warn(failed, "verb", r.verb.String(), "err", err)
	s.out.InternalError()
}

// count counts a command when it is answered or begins to wait. It also counts the connection as
// a producer or a worker if the command makes it one.
func (s *session) count(r *request) {
	s.noteProducer(r.producer)
	if isReserve(r.verb) && r.fault == protocol.NoFault {
		s.noteWorker()
	}
	if r.counted {
		r.counted = false
		s.countCommand(r.verb)
	}
}

func (s *session) countCommand(v protocol.Verb) { s.queue.Counters.Commands[v].Add(1) }

// noteProducer counts the connection as a producer if ok is set, once.
func (s *session) noteProducer(ok bool) {
	if ok && !s.producer {
		s.producer = true
		s.queue.Counters.Producers.Add(1)
	}
}

// noteWorker counts the connection as a worker, once.
func (s *session) noteWorker() {
	if !s.worker {
		s.worker = true
		s.queue.Counters.Workers.Add(1)
	}
}
