package server

import (
	"time"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has reserve: it is planned, its take is perhaps repeated, it perhaps waits, and it is
// answered. Waiter.Wait leads to package queue.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.Reserve:            {planReserve, answerReserved},
		protocol.ReserveWithTimeout: {planReserve, answerReserved},
		protocol.ReserveJob:         {planReserveJob, answerReservedJob},
	})
}

func planReserve(s *session, c *protocol.Command, r *request) {
	timeout := storage.Forever
	if c.Verb == protocol.ReserveWithTimeout {
		timeout = time.Duration(c.Timeout) * time.Second
	}
	s.planTake(r, timeout)
}

// planTake plans the take of a reserve that can wait for a job until timeout.
func (s *session) planTake(r *request, timeout time.Duration) { s.planTakeFor(s.holder, r, timeout) }

// planTakeFor is planTake for a holder: the connection, or tube.LeaseHolder.
func (s *session) planTakeFor(h tube.Holder, r *request, timeout time.Duration) {
	r.timeout = timeout
	r.waits = r.timeout > 0 && !s.halfClosed
	s.blocking = s.blocking || r.waits
	s.tubes += s.watched.len()
	tubes, first := s.takeTubes()
	s.addOp(r, storage.Op{Kind: storage.Take, Holder: h, Tubes: tubes, First: first, Wait: r.waits, Info: r.info})
}

// stale reports whether the take of r found no job before another reserve of the same burst waited.
// Since then a job can have come, and what this connection holds has changed.
func (s *session) stale(r *request) bool {
	return s.waited && !r.retaken && !r.waited && r.op >= 0 && isReserve(r.verb) && s.batch.Ops[r.op].Answer.NotFound
}

// retake repeats the take of r.
func (s *session) retake(r *request) {
	r.retaken = true
	s.wakeUps = s.queue.WakeUps()
	s.followUp.Ops = s.batch.Ops[r.op : r.op+1]
	s.phase = storing
	s.submitter.Submit(&s.followUp)
}

// mustWait reports whether r is a reserve that found no job and has time to wait for one.
func (s *session) mustWait(r *request) bool {
	if !r.waits || r.waited || s.halfClosed {
		return false
	}
	a := &s.batch.Ops[r.op].Answer
	return a.Err == nil && a.NotFound && a.Soon > 0
}

// startWaiting sends the replies before r, and makes r wait for a job.
func (s *session) startWaiting(r *request) error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	s.count(r)
	s.phase, s.waited = waiting, true
	take := &s.batch.Ops[r.op]
	s.waiting = s.waiterFor(take.Holder)
	s.waiting.Wait(take, s.wakeUps, min(r.timeout, take.Answer.Soon))
	return nil
}

// stepWaiting continues a wait until it has an outcome, or the client or the server ends it. It reads
// what the client sends meanwhile into the buffer, as far as there is room, to notice the end of the
// stream.
func (s *session) stepWaiting() (more bool) {
	if s.wire.PendingBytes() > 0 || s.unread.Load() > 0 {
		s.updateUnread()
	}
	answer, ended := s.waiting.Outcome()
	switch {
	case ended:
		s.endWaiting(answer)
		return true
	case s.cancelling:
		return false // a dispatch is serving it: the outcome follows
	case s.cause != nil, s.halfClosed, s.server.closing.Load():
		if s.waiting.Cancel() {
			s.endWaiting(storage.Answer{NotFound: true})
		} else {
			s.cancelling = true
		}
		return true
	case !s.readable || s.in.Full() || s.wire.PendingBytes() > 0:
		return false
	}
	s.cause = s.handleRead(s.in.Fill())
	return true
}

// endWaiting continues with the reserve that has waited. If the connection has to end, a job that
// came at the last moment is given back with all the others.
func (s *session) endWaiting(answer storage.Answer) {
	s.phase, s.cancelling = acting, false
	r := &s.requests[s.next]
	r.waited = true
	take := &s.batch.Ops[r.op]
	if !answer.NotFound {
		take.Answer = answer
	}
	if s.cause == nil && s.server.closing.Load() {
		s.cause = ErrServerClosed
	}
	if s.cause != nil {
		s.giveBack = giveBackLease(take)
		s.end(s.cause)
	}
}

// noJob answers a reserve that found no job and cannot wait, or not any longer.
func (s *session) noJob(r *request, a *storage.Answer) {
	if s.deadlineSoon(r, a) {
		s.out.DeadlineSoon()
	} else {
		if !r.waited {
			s.queue.Wanted(s.batch.Ops[r.op].Tubes)
		}
		s.out.TimedOut()
	}
}

// deadlineSoon reports whether such a reserve ends because a job that this connection holds is near
// its deadline.
func (s *session) deadlineSoon(r *request, a *storage.Answer) bool {
	return a.Soon <= 0 || r.waited && a.Soon <= r.timeout && !s.halfClosed
}

// searchTubes returns the tubes in which the connection looks for jobs, for an operation: the watched
// tubes on which it may work.
func (s *session) searchTubes() []string {
	if s.principal == nil {
		return s.watched.lend()
	}
	return s.principal.workTubes(s)
}

// takeTubes returns the tubes of a take, and whether it tries them in this order: with weights, in a
// random order that is new for each take.
func (s *session) takeTubes() (tubes []string, first bool) {
	tubes = s.searchTubes()
	if !s.watched.hasWeights() {
		return tubes, false
	}
	return s.watched.shuffled(tubes), true
}

func answerReserved(s *session, _ *request, a *storage.Answer) {
	s.principal.noteReserved(a.ID)
	s.noteOwn(a.ID)
	s.out.Reserved(a.ID, a.Body, a.Buffer)
	a.Buffer = nil // the writer releases it
}

// planReserveJob plans a reserve-job. On a store that instances share it can have to wait, see mustAwaitDeath: then nothing behind it is carried out
// before.
func planReserveJob(s *session, c *protocol.Command, r *request) {
	s.endsBurst = s.endsBurst || s.queue.Shared()
	s.addOp(r, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: s.holder, ID: c.ID})
}

func answerReservedJob(s *session, r *request, a *storage.Answer) {
	s.noteWorker()
	answerReserved(s, r, a)
}

// waiterFor returns the Waiter for a take of this holder.
func (s *session) waiterFor(h tube.Holder) *queue.Waiter {
	if h != tube.LeaseHolder {
		return s.waiter
	}
	if s.leaseWaiter == nil {
		s.leaseWaiter = s.queue.NewWaiter(h, func() { s.signal(served) })
	}
	return s.leaseWaiter
}

// giveBackLease returns the operations that give back a job which was reserved by a lease after its
// client had gone. Such a job is not released with what the connection holds.
func giveBackLease(take *storage.Op) []storage.Op {
	if take.Holder != tube.LeaseHolder || take.Answer.Result == nil {
		return nil
	}
	return []storage.Op{{
		Kind: storage.Move, Move: tube.GiveBack, Holder: tube.LeaseHolder, ID: take.Answer.ID,
		Args: &storage.Args{Lease: take.Answer.Result.Lease},
	}}
}
