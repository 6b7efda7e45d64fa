package server

import "redstalk/protocol"

// flushAt is how many bytes of replies a session collects before it writes them and then
// continues to answer.
const flushAt = 64 << 10

// answer writes the replies of the burst, as far as the store has answered and the client reads.
// It returns more if the session has something else to do before the next signal.
func (s *session) answer() (more bool, err error) {
	for s.phase == acting && s.next < len(s.requests) {
		r := &s.requests[s.next]
		if r.unexamined {
			s.dropTakes(r)
		}
		switch {
		case s.stale(r):
			s.retake(r)
			return true, nil
		case r.waitsForLookup:
			s.planLookups()
			continue
		case r.attempt != nil && !r.attempt.started:
			return true, s.startVerifying(r)
		case s.wantsToAsk(r):
			return true, s.startAsking(r)
		case s.mustWait(r):
			return true, s.startWaiting(r)
		case s.mustAwaitEnd(r):
			return true, s.startAwaitingEnd(r)
		case s.wantsMoreJobs(r):
			s.takeMoreJobs(r)
			return true, nil
		case s.wantsInfo(r) && s.readInfo(r), s.wantsCheckpoints(r) && s.readCheckpoints(r):
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
	if r.verb == protocol.WaitJob && r.waits || s.endWait.elsewhere != "" { // not of another one before, which only asks
		s.stopEndWait()
	}
	s.countResult(r.verb)
	if r.act != nil {
		s.audit(r)
	}
	switch {
	case s.log == nil:
	case r.wrong != "":
		s.log.Debug("command", "verb", r.verb.String(), "reply", s.out.Last(), "why", r.wrong)
	default:
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
	case r.op < 0, r.hasSeveralOps():
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
	case isNotKept(a):
		s.notKept(r)
	case a.NotFound && isReserve(r.verb):
		s.noJob(r, a)
	case a.NotFound:
		s.out.NotFound()
	default:
		handlers[r.verb].answer(s, r, a)
	}
}
