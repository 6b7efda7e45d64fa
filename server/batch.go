package server

import (
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has the commands that concern many jobs at once. Each is several operations,
// which are next to each other in the batch.

const (
	// maxBatchBytes bounds the bodies in the answer to a reserve-batch; the first one
	// may be larger.
	maxBatchBytes = 16 << 20

	// maxTakes bounds how many jobs a reserve-batch takes at once. Others have their
	// turn before the next ones.
	maxTakes = 64
)

// planReserveBatch begins with one take, which may wait like that of a reserve. The
// others follow when that has found a job, see takeMore.
func planReserveBatch(s *session, c *protocol.Command, r *request) {
	r.left = int(c.Bound)
	s.alone = true
	s.planTake(r, time.Duration(c.Timeout)*time.Second)
}

// wantsMore tells whether a reserve-batch has got all jobs that it asked for last, and
// there is room for another one in the answer.
func (s *session) wantsMore(r *request) bool {
	if r.verb != protocol.ReserveBatch || r.op < 0 {
		return false
	}
	for _, op := range s.batch.Ops[r.op+r.answered:] {
		if op.Answer.Err != nil || op.Answer.NotFound {
			return false
		}
		r.bytes += len(op.Answer.Body)
		r.answered++
		r.left--
	}
	return s.takesThatFit(r) > 0
}

// takesThatFit returns how many jobs a reserve-batch may take next, so that the answer
// stays within its bound whatever their bodies are.
func (s *session) takesThatFit(r *request) int {
	if len(s.searched()) == 0 {
		return 0 // rights are gone since the first take
	}
	room := max(maxBatchBytes-r.bytes, 0) / max(s.queue.MaxJobSize(), 1)
	tubes := max(maxBurstTubes/s.watched.len(), 1)
	return min(r.left, room, maxTakes, tubes)
}

// takeMore has a reserve-batch take more jobs, without waiting for any.
func (s *session) takeMore(r *request) {
	from := len(s.batch.Ops)
	for range s.takesThatFit(r) {
		s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.Take, Holder: s.holder, Tubes: s.searched()})
	}
	s.again.Ops = s.batch.Ops[from:]
	s.phase = storing
	s.outbox.Hand(&s.again)
}

// answerReservedBatch answers with the jobs that were taken. If the store has failed
// after some, these are what there is.
func answerReservedBatch(s *session, r *request, _ *storage.Answer) {
	all := s.batch.Ops[r.op:]
	first := &all[0].Answer
	switch {
	case first.Err != nil:
		s.fail(r, first.Err)
		return
	case first.NotFound && s.deadlineSoon(r, first):
		s.out.DeadlineSoon()
		return
	}
	s.out.ReservedBatch(r.answered)
	for i := range all[:r.answered] {
		answerReserved(s, r, &all[i].Answer)
	}
}

func planDeleteBatch(s *session, c *protocol.Command, r *request) {
	r.op = len(s.batch.Ops)
	for id := range protocol.IDs(c.List) {
		s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: s.holder, ID: id})
		r.left++
	}
}

// answerDeletedBatch counts what has become of the jobs. If the store has failed for one
// of them it says so: who repeats the command finds those that are left.
func answerDeletedBatch(s *session, r *request, _ *storage.Answer) {
	missing := 0
	for i := range s.batch.Ops[r.op : r.op+r.left] {
		a := &s.batch.Ops[r.op+i].Answer
		if a.Err != nil {
			s.fail(r, a.Err)
			return
		}
		if a.NotFound {
			missing++
		}
	}
	s.out.DeletedBatch(r.left-missing, missing)
}

// hasSeveralOps tells whether a command is several operations.
func hasSeveralOps(v protocol.Verb) bool {
	return v == protocol.ReserveBatch || v == protocol.DeleteBatch
}
