package server

import (
	"encoding/json"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// This file has the info of reserve-batch and reserve-lease: what a worker wants to know of a job
// that it gets, in the same round trip. It is read from the store after the takes.

// jobInfo is the info of a job. On the wire it is one line of JSON.
type jobInfo struct {
	Tube       string `json:"tube"`
	Pri        uint32 `json:"pri"`
	TTR        uint32 `json:"ttr"`        // seconds
	Age        int64  `json:"age"`        // seconds since the put
	Deliveries uint32 `json:"deliveries"` // including this one
	Failures   uint32 `json:"failures"`
	Key        string `json:"key,omitempty"`
}

// noInfo is the info of a job that is gone by now: its reservation ended while the info was read.
var noInfo = []byte("{}")

// wantsInfo reports whether r got jobs whose info is to be read.
func (s *session) wantsInfo(r *request) bool { return r.info && !r.infoRead && r.answered > 0 }

// readInfo reads the stats of the jobs that r got. They replace the takes that found nothing.
func (s *session) readInfo(r *request) {
	r.infoRead = true
	from := r.op + r.answered
	s.batch.Ops = s.batch.Ops[:from]
	for i := range r.answered {
		s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.JobStats, ID: s.batch.Ops[r.op+i].Answer.ID})
	}
	s.submitFollowUp(from)
}

// answerWithInfo answers with a job and its info.
func (s *session) answerWithInfo(a, stats *storage.Answer) {
	s.principal.noteReserved(a.ID)
	lease := uint64(0)
	if a.Result != nil {
		lease = a.Result.Lease
	}
	s.out.ReservedInfo(a.ID, lease, a.Body, a.Buffer, infoOf(stats))
	a.Buffer = nil // the writer releases it
}

// infoOf returns the info as JSON.
func infoOf(stats *storage.Answer) []byte {
	j := stats.Job
	if j == nil {
		return noInfo
	}
	m := j.Metadata
	if m == nil {
		m = new(tube.Metadata)
	}
	info, err := json.Marshal(jobInfo{
		Tube: j.Tube, Pri: j.Pri, TTR: j.TTR, Age: int64(j.Age / time.Second),
		Deliveries: m.Deliveries(&j.Counters), Failures: m.Failures(&j.Counters), Key: m.Key,
	})
	if err != nil {
		return noInfo
	}
	return info
}
