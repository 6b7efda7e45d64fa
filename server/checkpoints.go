package server

import (
	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has the commands about the checkpoints of jobs, and what the info of a job says of its checkpoint.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.Checkpoint:      {planWithData(tube.SaveCheckpoint, false), answerDone},
		protocol.CheckpointLease: {planWithData(tube.SaveCheckpoint, true), answerDone},
		protocol.GetCheckpoint:   {planGetCheckpoint, func(s *session, r *request, a *storage.Answer) { s.out.OK(s.sightWith(r.rights).Checkpoint(a.Body)) }},
	})
}

func planGetCheckpoint(s *session, c *protocol.Command, r *request) {
	r.rights = s.rightsToSee(c.ID)
	s.addOp(r, storage.Op{Kind: storage.GetCheckpoint, ID: c.ID})
}

// maxCheckpointBytes limits the checkpoints in the infos of one reply. Of further jobs these have only the length.
const maxCheckpointBytes = 4 << 20

// wantsCheckpoints reports whether the stats of the jobs that r got are there, but their checkpoints were not read.
func (s *session) wantsCheckpoints(r *request) bool { return r.infoRead && r.saved == 0 }

// readCheckpoints reads the checkpoints of the jobs that r got, which replace what was read before. It returns false if there are none.
func (s *session) readCheckpoints(r *request) bool {
	s.assignInfo(r)
	r.saved = r.op + r.answered
	s.batch.Ops = s.batch.Ops[:r.saved]
	bytes := 0
	for i := range r.answered {
		a := &s.batch.Ops[r.op+i].Answer
		size := checkpointSize(a.Job)
		if bytes += size; size > 0 && bytes <= maxCheckpointBytes {
			s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.GetCheckpoint, ID: a.ID})
		}
	}
	if len(s.batch.Ops) == r.saved {
		return false
	}
	s.submitFollowUp(r.saved)
	return true
}

// nextCheckpoint returns the checkpoint of a job that r got; nil if it was not read, or could not be. The jobs must come in their order.
func (s *session) nextCheckpoint(r *request, id uint64) []byte {
	if r.saved == len(s.batch.Ops) || s.batch.Ops[r.saved].ID != id {
		return nil
	}
	r.saved++
	return s.batch.Ops[r.saved-1].Answer.Body
}

// checkpointSize returns the length of the checkpoint of a job; 0 if there is none, or j is nil.
func checkpointSize(j *tube.JobStats) int {
	if j == nil {
		return 0
	}
	return j.Metadata.CheckpointSize()
}
