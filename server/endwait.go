package server

import (
	"fmt"
	"strings"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has wait-job: it is planned, its question to the store is repeated whenever the answer can be another one, and it is
// answered. Commands behind it wait, too. A reserve-job of a job that another instance holds is repeated likewise, until that has
// shown that it lives.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.WaitJob: {planWaitJob, answerWaitJob},
	})
}

// endWait is the wait of a session for the end of a job, or for the death of the instance that holds it.
type endWait struct {
	cancel    func()    // ends it; nil: the session waits for no end of a job
	deadline  time.Time // zero until the store has answered for the first time
	askAgain  bool      // the answer of the store can be another one now
	elsewhere string    // of a reserve-job: the first storage.Result.Elsewhere
	last      bool      // its time is over, or its client has closed its half: the next answer of the store is the last one
}

// A reserve-job of a job that another instance holds is repeated every repeatReserve, for deathDecided at most: mostly an instance that is
// silent counts as dead after 4 s. One that has shown that it lives counts as alive for livesOn.
const (
	repeatReserve = 250 * time.Millisecond
	deathDecided  = 6 * time.Second
	livesOn       = 2 * time.Second
)

// sighting is the last sign of life of another instance that a session has noticed.
type sighting struct {
	instance string
	at       time.Time
}

func planWaitJob(s *session, c *protocol.Command, r *request) {
	r.timeout = time.Duration(c.Timeout) * time.Second
	if r.waits = r.timeout > 0 && !s.halfClosed; r.waits {
		s.endsBurst = true
		s.endWait = endWait{cancel: s.queue.AwaitEnd(c.ID, func() { s.signal(jobEnded) })}
	}
	s.addOp(r, storage.Op{Kind: storage.WaitEnded, ID: c.ID, Wait: r.waits})
}

// mustAwaitEnd reports whether r is a wait-job that has time to wait, and whose job has not ended. Only the first and the last answer
// of the store can be an error.
func (s *session) mustAwaitEnd(r *request) bool {
	if r.verb != protocol.WaitJob || !r.waits || s.endWait.last {
		return r.verb == protocol.ReserveJob && s.mustAwaitDeath(r)
	}
	switch a := &s.batch.Ops[r.op].Answer; {
	case a.Err != nil:
		return !s.endWait.deadline.IsZero()
	case a.NotFound, isNotKept(a):
		return false
	default:
		return recordIn(a) == nil
	}
}

// mustAwaitDeath reports whether r is a reserve-job of a job that another instance holds which has shown no sign of life since the first answer.
func (s *session) mustAwaitDeath(r *request) bool {
	if r.op < 0 { // it was refused
		return false
	}
	a, w := &s.batch.Ops[r.op].Answer, &s.endWait
	if a.Err != nil || a.Result == nil || a.Result.Elsewhere == "" || w.last {
		return false
	}
	instance, _, _ := strings.Cut(a.Result.Elsewhere, " ")
	switch {
	case w.deadline.IsZero():
		w.elsewhere, r.timeout = a.Result.Elsewhere, deathDecided
		return s.lives.instance != instance || time.Since(s.lives.at) > livesOn
	case w.elsewhere != a.Result.Elsewhere:
		s.lives.instance, s.lives.at = instance, time.Now()
		return false
	}
	return true
}

// startAwaitingEnd sends the replies before r, and makes r wait.
func (s *session) startAwaitingEnd(r *request) error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	s.count(r)
	w, failed := &s.endWait, s.batch.Ops[r.op].Answer.Err != nil
	if w.deadline.IsZero() {
		w.deadline = time.Now().Add(r.timeout)
	}
	s.phase = awaitingEnd
	switch left := time.Until(w.deadline); {
	case failed:
		s.setTimer(min(left, queue.RetryEndWait))
	case w.elsewhere != "":
		s.setTimer(min(left, repeatReserve))
	default:
		s.setTimer(left)
	}
	return nil
}

// stepAwaitingEnd is stepWaiting for a wait-job, or a reserve-job.
func (s *session) stepAwaitingEnd() (more bool) {
	if s.wire.PendingBytes() > 0 || s.unread.Load() > 0 {
		s.updateUnread()
	}
	switch {
	case s.cause == nil && s.server.closing.Load():
		s.cause = ErrServerClosed
		return true
	case s.cause != nil:
		s.end(s.cause)
		return false
	case s.endWait.askAgain, s.halfClosed:
		s.askForEnd()
		return false
	case !s.readable || s.in.Full() || s.wire.PendingBytes() > 0:
		return false
	}
	s.cause = s.handleRead(s.in.Fill())
	return true
}

// askForEnd repeats the question of the wait-job or reserve-job that waits.
func (s *session) askForEnd() {
	w, op := &s.endWait, &s.batch.Ops[s.requests[s.next].op]
	w.last = s.halfClosed || !time.Now().Before(w.deadline)
	w.askAgain = false
	op.Answer, op.Wait = storage.Answer{}, !w.last && op.Kind == storage.WaitEnded
	s.followUp.Ops = s.batch.Ops[s.requests[s.next].op:][:1]
	s.phase = storing
	s.submitter.Submit(&s.followUp)
}

// stopEndWait ends the wait for the end of a job, if there is one.
func (s *session) stopEndWait() {
	if s.endWait.cancel != nil {
		s.endWait.cancel()
	}
	if s.timer != nil && (s.endWait.cancel != nil || s.endWait.elsewhere != "") {
		s.timer.Stop()
	}
	s.endWait = endWait{}
}

// answerWaitJob answers what has become of the job.
func answerWaitJob(s *session, _ *request, a *storage.Answer) {
	switch e := recordIn(a); {
	case e == nil:
		s.out.TimedOut()
	case !s.mayOn(e.Tube, access.Read):
		s.refuseRecord(e)
	default:
		s.out.Ended(e.ID, e.How.String(), endBody(s.sight(e.Tube).Ended(e)))
	}
}

// endBody returns what wait-job says beside how a job has ended.
func endBody(e *tube.Ended) []byte {
	switch e.How {
	case tube.Done:
		return e.Result
	case tube.Dead, tube.Moved:
		return fmt.Appendf(nil, "%s %d", e.ToTube, e.ToID)
	case tube.StillParked:
		return []byte(e.Reason)
	}
	return nil
}
