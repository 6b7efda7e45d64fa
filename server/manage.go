package server

import (
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has the commands with which people manage tubes: list-jobs, flush-tube, move-jobs, find and
// delete-key.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.Find:      {planKey(storage.PeekKey), answerFound},
		protocol.DeleteKey: {planKey(storage.DeleteKey), answerDone},
		protocol.ListJobs:  {planListJobs, answerListJobs},
		protocol.FlushTube: {planFlush, func(s *session, _ *request, a *storage.Answer) { s.out.FlushedJobs(uint64(a.Count)) }},
		protocol.MoveJobs:  {planMoveJobs, func(s *session, _ *request, a *storage.Answer) { s.out.Moved(uint64(a.Count)) }},
	})
}

// states translates the states of package protocol into those of package tube.
var states = [...]tube.State{
	protocol.NoState: tube.Gone, protocol.Ready: tube.Ready, protocol.Reserved: tube.Reserved,
	protocol.Delayed: tube.Delayed, protocol.Buried: tube.Buried,
}

// planKey returns the plan of a command about the job of a tube that has a key.
func planKey(kind storage.Kind) func(*session, *protocol.Command, *request) {
	return func(s *session, c *protocol.Command, r *request) {
		op := storage.Op{Kind: kind, Tube: string(c.Name), Args: &storage.Args{Key: c.Key}}
		r.rights = s.rightsOn(op.Tube)
		s.addOp(r, op)
	}
}

func planListJobs(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{
		Kind: storage.ListJobs, Tube: string(c.Name), State: states[c.State], MaxJobs: c.MaxJobs, Args: &storage.Args{Cursor: c.Cursor},
	})
}

func planFlush(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Flush, Tube: string(c.Name), State: states[c.State]})
}

func planMoveJobs(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{
		Kind: storage.MoveJobs, Tube: string(c.Name), State: states[c.State], MaxJobs: c.MaxJobs, Args: &storage.Args{To: string(c.To)},
	})
}

// answerListJobs writes a page: the cursor of the next page, and a line for each job.
func answerListJobs(s *session, _ *request, a *storage.Answer) {
	var p protocol.Page
	p.Word("next", a.Result.Cursor)
	p.List("jobs", len(a.Result.Jobs))
	for i := range a.Result.Jobs {
		p.Flow(s.jobLine(&a.Result.Jobs[i]))
	}
	s.out.OK(p.Bytes())
}

// jobLine returns the line of list-jobs for a job.
func (s *session) jobLine(j *tube.JobStats) *protocol.FlowMap {
	m := new(protocol.FlowMap)
	m.Uint("id", j.ID)
	addJob(m, s.sight(j.Tube).Job(j))
	return m
}

// addJob adds what lists say of a job, but for its id.
func addJob(m *protocol.FlowMap, j *tube.JobStats) {
	m.Uint("pri", uint64(j.Pri))
	m.Int("age", int64(j.Age/time.Second))
	m.Int("due-ms", int64(j.TimeLeft/time.Millisecond))
	m.Int("size", int64(j.Size))
	m.Uint("ttr", uint64(j.TTR))
	if j.Metadata != nil && j.Metadata.Key != "" {
		m.Quoted("key", j.Metadata.Key)
	}
	if j.Metadata != nil && j.Metadata.Group != "" {
		m.Quoted("group", j.Metadata.Group)
	}
	if j.Metadata != nil && j.Metadata.Occurrence != nil {
		m.Bare("schedule", j.Metadata.Occurrence.Schedule)
	}
	if j.Metadata != nil && j.Metadata.Batch != "" {
		m.Quoted("batch", j.Metadata.Batch)
	}
	if j.Metadata != nil && j.Metadata.After != "" {
		m.Quoted(afterWord(j.Metadata), j.Metadata.After)
	}
	if j.Held != tube.NotHeld {
		m.Bare("held", j.Held.String())
	}
	for c := range tube.NumCounters {
		m.Uint(c.String(), uint64(j.Counters[c]))
	}
	if j.Metadata != nil && j.Metadata.Parked != tube.NotParked {
		m.Bare("parked", j.Metadata.Parked.String())
	}
	if j.Metadata != nil && j.Metadata.FromTube != "" {
		m.Bare("from-tube", j.Metadata.FromTube)
		m.Uint("from-id", j.Metadata.FromID)
	}
	if j.Metadata != nil {
		addReports(m, j.Metadata)
	}
	if n := j.Metadata.AllNotes(); n.Reason != "" {
		m.Quoted("reason", n.Reason)
		m.Int("failed-ms", failedMs(n))
	}
	if n := j.Metadata.AllNotes(); n.FirstPut != 0 {
		m.Int("first-put-ms", msOf(n.FirstPut))
	}
}
