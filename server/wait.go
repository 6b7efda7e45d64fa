package server

import (
	"time"

	"redstalk/storage"
)

// stale tells whether the take of r found nothing and was done before another
// reserve of the same burst had to wait: since then a job may have come, and
// what this connection holds has changed.
func (s *session) stale(r *request) bool {
	return s.waited && !r.fresh && !r.waited && r.op >= 0 && isReserve(r.verb) && s.batch.Ops[r.op].Answer.NotFound
}

// retake repeats the take of r.
func (s *session) retake(r *request, t *turn) {
	r.fresh = true
	s.knocks = s.server.hall.knocks.Load()
	s.again.Ops = s.batch.Ops[r.op : r.op+1]
	s.phase = storing
	s.hand(&s.again, t)
}

// mustWait tells whether r is a reserve that found no job and has time to
// wait for one.
func (s *session) mustWait(r *request) bool {
	if !r.waits || r.waited || s.halfClosed {
		return false
	}
	a := &s.batch.Ops[r.op].Answer
	return a.Err == nil && a.NotFound && a.Soon > 0
}

// noJob answers a reserve that found no job and cannot wait (any more).
func (s *session) noJob(r *request, a *storage.Answer) {
	switch {
	case a.Soon <= 0, r.waited && a.Soon <= r.timeout && !s.halfClosed:
		s.out.DeadlineSoon()
	default:
		s.out.TimedOut()
	}
}

// limitGrace is how much longer a wait is than was asked for. What the client has
// made due at the end of it must be due by then by the clock of the store, too,
// and the Redis engine rounds what is due up to whole milliseconds, by up to 2.
const limitGrace = 2 * time.Millisecond

// enterHall begins the waiting of r for a job.
func (s *session) enterHall(r *request) error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	s.count(r)
	s.phase, s.waited = waiting, true
	s.waiter = &waiter{holder: s.holder, tubes: s.batch.Ops[r.op].Tubes, notify: s.isServed}
	wait := min(r.timeout, s.batch.Ops[r.op].Answer.Soon)
	if s.limit, s.lapsed = (time.Time{}), false; wait < storage.Forever {
		wait += limitGrace
		s.limit = time.Now().Add(wait)
		s.setTimer(wait)
	}
	s.server.hall.join(s.waiter, s.knocks)
	return nil
}

func (s *session) isServed() { s.signal(served, nil) }

func (s *session) setTimer(in time.Duration) {
	if s.timer == nil {
		s.timer = time.AfterFunc(in, func() { s.signal(late, nil) })
		return
	}
	s.timer.Reset(in)
}

// wait is a step in the hall: until there is a job, the limit has come, or the
// client or the server ends. What the client sends meanwhile is read into the
// buffer, as far as there is room, so that its end is noticed.
func (s *session) wait() (more bool) {
	answer, decided := s.server.hall.outcome(s.waiter)
	switch {
	case decided:
		s.leaveHall(answer)
		return true
	case s.leaving:
		return false // it is just being served: the outcome follows
	case s.cause != nil, s.halfClosed, s.server.closing.Load():
		s.leaving = true
		if s.server.hall.leave(s.waiter) {
			s.leaveHall(storage.Answer{NotFound: true})
		}
		return true
	case !s.lapsed && s.isLate():
		s.lapsed = true
		s.server.hall.lapse(s.waiter) // which decides
		s.server.bell.Due(0)
		return true
	case !s.readable || s.in.Full() || s.wire.Kept() > 0:
		return false
	}
	s.cause = s.noteRead(s.in.Fill())
	return true
}

func (s *session) isLate() bool { return !s.limit.IsZero() && !time.Now().Before(s.limit) }

// leaveHall goes on with the reserve that has waited. If the connection is to
// end, a job that came at the last moment is given back with all the others.
func (s *session) leaveHall(answer storage.Answer) {
	s.phase, s.waiter, s.leaving = acting, nil, false
	if s.timer != nil {
		s.timer.Stop()
	}
	r := &s.requests[s.next]
	r.waited = true
	if !answer.NotFound {
		s.batch.Ops[r.op].Answer = answer
	}
	if s.cause == nil && s.server.closing.Load() {
		s.cause = ErrServerClosed
	}
	if s.cause != nil {
		s.end(s.cause, nil)
	}
}
