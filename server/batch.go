package server

import (
	"encoding/json"
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
	"redstalk/tube/field"
)

// This file has reserve-batch and delete-batch. Each of them is several operations, which are next
// to each other in the session's batch.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.ReserveBatch: {planReserveBatch, answerReserveBatch},
		protocol.DeleteBatch:  {planDeleteBatch, answerDeleteBatch},
	})
}

const (
	// maxBatchBytes limits the bodies in the answer to a reserve-batch. The first body can be
	// larger.
	maxBatchBytes = 16 << 20

	// maxTakes limits how many jobs a reserve-batch takes with one call of the store. Other
	// connections are served before the next call.
	maxTakes = 64
)

// planReserveBatch plans a take that can wait, like that of a reserve, and others behind it, so that
// one call of the store finds the jobs. If there are more, more takes follow, see takeMoreJobs.
func planReserveBatch(s *session, c *protocol.Command, r *request) {
	holder := s.holder
	if c.ByLease {
		holder = tube.LeaseHolder
	}
	r.remaining, r.info = int(c.MaxJobs), c.Info
	s.endsBurst = true
	s.planTakeFor(holder, r, time.Duration(c.Timeout)*time.Second)
	if n, share := s.nextTakes(r); n > 1 && share == 0 {
		s.addTakes(r, n-1, 0)
		r.unexamined = true
	}
}

// addTakes adds takes that do not wait for a job to those of a reserve-batch.
func (s *session) addTakes(r *request, n, share int) {
	take := storage.Op{Kind: storage.Take, Holder: s.batch.Ops[r.op].Holder, MaxBytes: uint32(share), Info: r.info}
	for range n {
		take.Tubes, take.First = s.takeTubes()
		s.batch.Ops = append(s.batch.Ops, take)
	}
}

// dropTakes removes the planned takes behind the first one if none has found a job. If others have found one and the
// first has not, since the store does not carry out all at the same time, the first of those comes first.
func (s *session) dropTakes(r *request) {
	r.unexamined = false
	all := s.batch.Ops[r.op:]
	for i := range all {
		if a := &all[i].Answer; a.Err == nil && !a.NotFound {
			all[0].Answer, all[i].Answer = all[i].Answer, all[0].Answer
			return
		}
	}
	s.batch.Ops = s.batch.Ops[:r.op+1]
}

// isBatchOfTakes reports whether r is a reserve-batch, or a reserve-lease with info, which is like
// one of a single job.
func (r *request) isBatchOfTakes() bool { return r.verb == protocol.ReserveBatch || r.info }

// wantsMoreJobs collects the jobs that a reserve-batch has got, and reports whether it takes more:
// if its last takes have all found a job, and the answer has room for another one. If a take has
// found none, a body may have been too long for its share of the room: then the next take is for
// one job, which can have all of the room.
func (s *session) wantsMoreJobs(r *request) bool {
	if !r.isBatchOfTakes() || r.op < 0 || r.infoRead {
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

// collectReserved moves those last takes of a reserve-batch that have found a job before those
// that have not. It returns how many have found one, and whether a take has failed.
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

// nextTakes returns how many jobs a reserve-batch can take next so that the answer stays within its
// limit, and how many bytes each body can have, its share; 0 if every body fits.
func (s *session) nextTakes(r *request) (n, share int) {
	if len(s.searchTubes()) == 0 {
		return 0, 0 // rights were withdrawn since the first take
	}
	room, largest := maxBatchBytes-r.bytes, max(s.queue.MaxJobSize(), 1)
	n = min(r.remaining, maxTakes, max(maxBurstTubes/s.watched.len(), 1))
	switch {
	case room <= 0:
		return 0, 0
	case room >= largest:
		return min(n, room/largest), 0
	case r.single:
		n = min(n, 1)
	}
	n = min(n, room)
	return n, room / max(n, 1)
}

// takeMoreJobs submits more takes of a reserve-batch. They do not wait for jobs.
func (s *session) takeMoreJobs(r *request) {
	from := len(s.batch.Ops)
	n, share := s.nextTakes(r)
	r.bodyShare = share
	s.addTakes(r, n, share)
	s.submitFollowUp(from)
}

// submitFollowUp submits the operations of the batch from an index on.
func (s *session) submitFollowUp(from int) {
	s.followUp.Ops = s.batch.Ops[from:]
	s.phase = storing
	s.submitter.Submit(&s.followUp)
}

// answerReserveBatch answers with the jobs that were taken, also if the store failed after some of
// them.
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
	for i := range r.answered {
		s.answerOneOfBatch(r, i)
	}
}

// answerOneOfBatch answers with one of the jobs that were taken.
func (s *session) answerOneOfBatch(r *request, i int) {
	a := &s.batch.Ops[r.op+i].Answer
	switch {
	case r.info:
		s.answerWithInfo(a, s.nextCheckpoint(r, a.ID))
	case a.Result != nil:
		answerReservedLease(s, r, a)
	default:
		answerReserved(s, r, a)
	}
}

func planDeleteBatch(s *session, c *protocol.Command, r *request) {
	r.op = len(s.batch.Ops)
	for id := range protocol.IDs(c.List) {
		s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: s.holder, ID: id, Args: s.holderArgs()})
		r.remaining++
	}
}

// answerDeleteBatch answers how many jobs were deleted and how many were not found. If the store
// has failed for one of them, it answers with that error: a client that repeats the command deletes
// the jobs that are left.
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

// jobInfo is the info of a job that reserve-batch or reserve-lease has taken: what a worker wants to
// know of it in the same round trip. It is read from the store after the takes. On the wire it is one
// line of JSON.
type jobInfo struct {
	Tube       string `json:"tube"`
	Pri        uint32 `json:"pri"`
	TTR        uint32 `json:"ttr"`        // seconds
	Age        int64  `json:"age"`        // seconds since the put
	Deliveries uint32 `json:"deliveries"` // including this one
	Failures   uint32 `json:"failures"`
	Key        string `json:"key,omitempty"`
	Group      string `json:"group,omitempty"`

	Retry    string            `json:"retry,omitempty"` // as in stats-job
	Keep     string            `json:"keep,omitempty"`  // as in stats-job
	Meta     map[string]string `json:"meta,omitempty"`
	Trace    string            `json:"trace,omitempty"`
	Reason   string            `json:"reason,omitempty"` // of the last failure
	FailedMs int64             `json:"failed-ms,omitempty"`

	Attempts   []attemptInfo `json:"attempts,omitempty"` // the newest first
	FirstPutMs int64         `json:"first-put-ms,omitempty"`

	Batch     string `json:"batch,omitempty"`    // of which it is a member
	Schedule  string `json:"schedule,omitempty"` // that has put it
	NominalMs int64  `json:"nominal-ms,omitempty"`

	CheckpointBytes int    `json:"checkpoint-bytes,omitempty"`
	Checkpoint      []byte `json:"checkpoint,omitempty"` // in base64
}

// attemptInfo is what the info says of an attempt.
type attemptInfo struct {
	EndedMs int64  `json:"ended-ms"`
	How     string `json:"how"`
	Holder  string `json:"holder,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// attemptsOf returns the attempts of a job for its info.
func attemptsOf(n *tube.Notes) (all []attemptInfo) {
	for _, a := range n.Attempts {
		all = append(all, attemptInfo{msOf(a.At), a.How.String(), a.Holder, a.Reason})
	}
	return all
}

// noInfo is the info of a job that is gone by now: its reservation ended while the info was read.
var noInfo = []byte("{}")

// wantsInfo reports whether r got jobs whose info is to be read.
func (s *session) wantsInfo(r *request) bool { return r.info && !r.infoRead && r.answered > 0 }

// readInfo reads the stats of the jobs that r got, unless their takes have answered with them. They replace the takes that
// found nothing. It returns false if nothing has to be read.
func (s *session) readInfo(r *request) bool {
	r.infoRead = true
	from := r.op + r.answered
	s.batch.Ops = s.batch.Ops[:from]
	for i := range r.answered {
		if a := &s.batch.Ops[r.op+i].Answer; a.Job == nil {
			s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.JobStats, ID: a.ID})
		}
	}
	if len(s.batch.Ops) == from {
		return false
	}
	s.submitFollowUp(from)
	return true
}

// assignInfo gives the stats that were read to the jobs.
func (s *session) assignInfo(r *request) {
	read := s.batch.Ops[r.op+r.answered:]
	for i := range r.answered {
		if a := &s.batch.Ops[r.op+i].Answer; a.Job == nil {
			a.Job, read = read[0].Answer.Job, read[1:]
		}
	}
}

// answerWithInfo answers with a job and its info.
func (s *session) answerWithInfo(a *storage.Answer, checkpoint []byte) {
	s.noteReserved(a)
	lease := uint64(0)
	if a.Result != nil {
		lease = a.Result.Lease
	}
	s.out.ReservedInfo(a.ID, lease, a.Body, a.Buffer, infoOf(a.Job, checkpoint))
	a.Buffer = nil // the writer releases it
}

// infoOf returns the info as JSON.
func infoOf(j *tube.JobStats, checkpoint []byte) []byte {
	if j == nil {
		return noInfo
	}
	m := j.Metadata
	if m == nil {
		m = new(tube.Metadata)
	}
	n, o := m.AllNotes(), m.Occurrence
	if o == nil {
		o = new(tube.Occurrence)
	}
	info, err := json.Marshal(jobInfo{
		Tube: j.Tube, Pri: j.Pri, TTR: j.TTR, Age: int64(j.Age / time.Second),
		Deliveries: m.Deliveries(&j.Counters), Failures: m.Failures(&j.Counters), Key: m.Key, Group: m.Group,
		Retry: field.RetryText(j.Rules.Retry, j.Rules.Doubled), Keep: keepText(j.Rules.Keep), Meta: metaMap(n.Meta), Trace: n.Trace, Reason: n.Reason, FailedMs: failedMs(n),
		Attempts: attemptsOf(n), FirstPutMs: msOf(n.FirstPut), Batch: m.Batch, Schedule: o.Schedule, NominalMs: msOf(o.Nominal),
		CheckpointBytes: m.CheckpointSize(), Checkpoint: checkpoint,
	})
	if err != nil {
		return noInfo
	}
	return info
}

// keepText formats for how long a record is kept; "" if none is.
func keepText(keep tube.Lifetime) string {
	if keep.Duration() == 0 {
		return ""
	}
	return field.Durations(keep.Duration())
}

func metaMap(all []tube.Meta) map[string]string {
	if all == nil {
		return nil
	}
	meta := make(map[string]string, len(all))
	for _, m := range all {
		meta[m.Name] = m.Value
	}
	return meta
}
