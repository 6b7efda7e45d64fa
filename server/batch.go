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
	r.remaining = int(c.Bound)
	s.endsBurst = true
	s.planTake(r, time.Duration(c.Timeout)*time.Second)
}

// wantsMore notes what a reserve-batch has got, and tells whether it takes more: if it has got
// all jobs that it asked for last, and there is room for another one in the answer. If it has
// not, because a body may have been too long for its share of the room, it takes one that may
// have all of it.
func (s *session) wantsMoreJobs(r *request) bool {
	if r.verb != protocol.ReserveBatch || r.op < 0 {
		return false
	}
	asked := len(s.batch.Ops) - r.op - r.answered
	got, failed := s.collectReserved(r)
	if got < asked {
		if failed || r.bodyShare == 0 || asked == 1 {
			return false
		}
		s.batch.Ops = s.batch.Ops[:r.op+r.answered]
	}
	r.single = got < asked
	n, _ := s.nextTakes(r)
	return n > 0
}

// noteTaken notes the jobs that a reserve-batch has got by its last takes, and moves them before
// those takes that have found none. It returns how many there are, and whether one has failed.
func (s *session) collectReserved(r *request) (got int, failed bool) {
	all := s.batch.Ops[r.op:]
	for i := r.answered; i < len(all); i++ {
		a := &all[i].Answer
		failed = failed || a.Err != nil
		if a.Err != nil || a.NotFound {
			continue
		}
		r.bytes += len(a.Body)
		all[r.answered], all[i] = all[i], all[r.answered]
		r.answered, r.remaining, got = r.answered+1, r.remaining-1, got+1
	}
	return got, failed
}

// takesThatFit returns how many jobs a reserve-batch may take next, so that the answer stays
// within its bound, and of how many bytes each body may be, its share; 0 if all bodies fit.
func (s *session) nextTakes(r *request) (n, share int) {
	if len(s.searchTubes()) == 0 {
		return 0, 0 // rights are gone since the first take
	}
	room, most := maxBatchBytes-r.bytes, max(s.queue.MaxJobSize(), 1)
	n = min(r.remaining, maxTakes, max(maxBurstTubes/s.watched.len(), 1))
	switch {
	case room <= 0:
		return 0, 0
	case room >= most:
		return min(n, room/most), 0
	case r.single:
		n = min(n, 1)
	}
	n = min(n, room)
	return n, room / max(n, 1)
}

// takeMore has a reserve-batch take more jobs, without waiting for any.
func (s *session) takeMoreJobs(r *request) {
	from := len(s.batch.Ops)
	n, share := s.nextTakes(r)
	r.bodyShare = share
	for range n {
		s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.Take, Holder: s.holder, Tubes: s.searchTubes(), MaxBytes: uint32(share)})
	}
	s.followUp.Ops = s.batch.Ops[from:]
	s.phase = storing
	s.submitter.Submit(&s.followUp)
}

// answerReservedBatch answers with the jobs that were taken. If the store has failed
// after some, these are what there is.
func answerReserveBatch(s *session, r *request, _ *storage.Answer) {
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
		r.remaining++
	}
}

// answerDeletedBatch counts what has become of the jobs. If the store has failed for one
// of them it says so: who repeats the command finds those that are left.
func answerDeleteBatch(s *session, r *request, _ *storage.Answer) {
	missing := 0
	for i := range s.batch.Ops[r.op : r.op+r.remaining] {
		a := &s.batch.Ops[r.op+i].Answer
		if a.Err != nil {
			s.fail(r, a.Err)
			return
		}
		if a.NotFound {
			missing++
		}
	}
	s.out.DeletedBatch(r.remaining-missing, missing)
}

// hasSeveralOps tells whether a command is several operations.
func hasSeveralOps(v protocol.Verb) bool {
	return v == protocol.ReserveBatch || v == protocol.DeleteBatch
}
