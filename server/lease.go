package server

import (
	"time"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has reservations by lease: they belong to the client that has the lease token, and not to
// a connection.

func planReserveLease(s *session, c *protocol.Command, r *request) {
	s.planTakeFor(tube.LeaseHolder, r, time.Duration(c.Timeout)*time.Second)
}

func answerReservedLease(s *session, _ *request, a *storage.Answer) {
	s.principal.noteReserved(a.ID)
	s.out.Leased(a.ID, a.Result.Lease, a.Body, a.Buffer)
	a.Buffer = nil // the writer releases it
}

// planMoveLease returns the plan of a command that moves a job by its lease token. No job has the
// token 0.
func planMoveLease(m tube.Move) func(*session, *protocol.Command, *request) {
	return func(s *session, c *protocol.Command, r *request) {
		s.addOp(r, storage.Op{
			Kind: storage.Move, Move: m, Holder: tube.LeaseHolder, ID: c.ID, Pri: c.Pri, Delay: c.Delay,
			Args: &storage.Args{Lease: c.Lease},
		})
	}
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
