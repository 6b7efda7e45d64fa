package server

import (
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has reservations by lease: they belong to the client that has the lease token, and not to
// a connection.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.ReserveLease: {planReserveLease, answerReserveLease},
		protocol.DeleteLease:  {planMoveLease(tube.Delete), answerDone},
		protocol.TouchLease:   {planMoveLease(tube.Touch), answerDone},
		protocol.ReleaseLease: {planMoveLease(tube.Release), answerDone},
		protocol.BuryLease:    {planMoveLease(tube.Bury), answerDone},
	})
}

func planReserveLease(s *session, c *protocol.Command, r *request) {
	if c.Info {
		r.remaining, r.info, s.endsBurst = 1, true, true
	}
	s.planTakeFor(tube.LeaseHolder, r, time.Duration(c.Timeout)*time.Second)
}

func answerReserveLease(s *session, r *request, a *storage.Answer) {
	if !r.info {
		answerReservedLease(s, r, a)
		return
	}
	switch a = &s.batch.Ops[r.op].Answer; {
	case r.answered > 0:
		s.answerOneOfBatch(r, 0)
	case a.Err != nil:
		s.fail(r, a.Err)
	default:
		s.noJob(r, a)
	}
}

func answerReservedLease(s *session, _ *request, a *storage.Answer) {
	s.noteReserved(a)
	s.out.Leased(a.ID, a.Result.Lease, a.Body, a.Buffer)
	a.Buffer = nil // the writer releases it
}

// noteReserved records what others ask later about a job that was reserved.
func (s *session) noteReserved(a *storage.Answer) {
	s.principal.noteReserved(a.ID)
	s.noteOwn(a.ID)
	if s.name != "" && a.Result != nil {
		s.queue.NoteLease(a.ID, a.Result.Lease, s.holder, s.name)
	}
}

// planMoveLease returns the plan of a command that moves a job by its lease token. No job has the
// token 0.
func planMoveLease(m tube.Move) func(*session, *protocol.Command, *request) {
	return func(s *session, c *protocol.Command, r *request) {
		op := storage.Op{
			Kind: storage.Move, Move: m, Holder: tube.LeaseHolder, ID: c.ID, Pri: c.Pri, Delay: c.Delay,
			Args: &storage.Args{Lease: c.Lease, By: s.nameOfHolder()},
		}
		if c.Tags != nil {
			addMoveTags(&op, c.Tags)
		}
		s.addOp(r, op)
	}
}
