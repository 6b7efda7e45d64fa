package server

import (
	"time"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has reservations that are no connection's.

func planReserveLease(s *session, c *protocol.Command, r *request) {
	s.planTakeFor(tube.LeaseHolder, r, time.Duration(c.Timeout)*time.Second)
}

func answerReservedLease(s *session, _ *request, a *storage.Answer) {
	s.principal.noteReserved(a.ID)
	s.out.Leased(a.ID, a.Result.Lease, a.Body, a.Buffer)
	a.Buffer = nil // the writer's
}

// planMoveLeased plans a move of a job on behalf of whoever has its lease. The token 0 is
// one that no job has.
func planMoveLease(m tube.Move) func(*session, *protocol.Command, *request) {
	return func(s *session, c *protocol.Command, r *request) {
		s.addOp(r, storage.Op{
			Kind: storage.Move, Move: m, Holder: tube.LeaseHolder, ID: c.ID, Pri: c.Pri, Delay: c.Delay,
			Args: &storage.Args{Lease: c.Lease},
		})
	}
}

// waiterFor returns the Waiter of whoever a take is for.
func (s *session) waiterFor(h tube.Holder) *queue.Waiter {
	if h != tube.LeaseHolder {
		return s.waiter
	}
	if s.leaseWaiter == nil {
		s.leaseWaiter = s.queue.NewWaiter(h, func() { s.signal(served) })
	}
	return s.leaseWaiter
}

// unwantedLease returns what gives back a job that came when its client was gone: one that
// is reserved by a lease is not given back with what the connection holds.
func giveBackLease(take *storage.Op) []storage.Op {
	if take.Holder != tube.LeaseHolder || take.Answer.Result == nil {
		return nil
	}
	return []storage.Op{{
		Kind: storage.Move, Move: tube.GiveBack, Holder: tube.LeaseHolder, ID: take.Answer.ID,
		Args: &storage.Args{Lease: take.Answer.Result.Lease},
	}}
}
