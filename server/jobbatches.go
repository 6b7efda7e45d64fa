package server

import (
	"context"
	"slices"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/jobbatch"
	"redstalk/tube"
)

// This file has the commands about batches. Their names are whole, see principal.completeBatches.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.SealBatch:   {planSealBatch, answerAsked},
		protocol.StatsBatch:  {planStatsBatch, answerAsked},
		protocol.ListBatches: {planListBatches, answerAsked},
		protocol.ListMembers: {planListMembers, answerAsked},
		protocol.CancelBatch: {planCancelBatch, answerAsked},
	})
}

func planSealBatch(s *session, c *protocol.Command, r *request) {
	name := c.Key
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		return func(s *session) { s.out.Done(protocol.SealBatch) }, s.batches.Seal(ctx, name)
	})
}

func planCancelBatch(s *session, c *protocol.Command, r *request) {
	name := c.Key
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		n, err := s.batches.Cancel(ctx, name)
		return func(s *session) { s.out.Cancelled(n) }, err
	})
}

func planStatsBatch(s *session, c *protocol.Command, r *request) {
	name := c.Key
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		summary, err := s.batches.Get(ctx, name)
		return func(s *session) { s.out.OK(batchPage(summary, s.listedJobs(summary.After))) }, err
	})
}

// listedJobs returns those of the jobs in tubes that the client may list.
func (s *session) listedJobs(jobs []tube.JobStats) []tube.JobStats {
	if s.principal == nil || s.principal.user.Everywhere()&access.List != 0 {
		return jobs
	}
	return slices.DeleteFunc(slices.Clone(jobs), func(j tube.JobStats) bool { return s.principal.user.On(j.Tube)&access.List == 0 })
}

// batchPage returns the page of stats-batch; after are the jobs after the batch.
func batchPage(summary *jobbatch.Summary, after []tube.JobStats) []byte {
	var p protocol.Page
	p.Quoted("name", summary.Name)
	p.Bare("state", summary.State)
	p.Bool("sealed", summary.Sealed)
	for _, n := range batchCounts(summary) {
		p.Uint(n.word, n.count)
	}
	p.Int("age", int64(summary.Age/time.Second))
	p.Int("ttl-ms", summary.TTL.Milliseconds())
	p.List("after", len(after))
	for i := range after {
		p.Flow(afterLine(&after[i]))
	}
	return p.Bytes()
}

// batchCounts returns the numbers of members and after-jobs of a batch.
func batchCounts(s *jobbatch.Summary) []wordCount {
	return []wordCount{
		{"total", s.Total()}, {"pending", s.Pending}, {"parked", s.Parked}, {"done", s.Done}, {"gone", s.Gone},
		{"after-held", s.AfterHeld}, {"after-failed", s.AfterFailed},
	}
}

// afterLine returns the line of stats-batch for an after-job.
func afterLine(j *tube.JobStats) *protocol.FlowMap {
	m := new(protocol.FlowMap)
	m.Uint("id", j.ID)
	m.Bare("tube", j.Tube)
	m.Bare("state", j.State.String())
	if f := j.Metadata; f != nil {
		m.Bool("all", f.AfterAll)
		if f.Batch != "" {
			m.Quoted("batch", f.Batch)
		}
	}
	return m
}

func planListBatches(s *session, c *protocol.Command, r *request) {
	count, cursor, list := c.MaxJobs, c.Cursor, s.batches.List
	if p := s.principal; p != nil {
		if prefixes, all := p.user.ReadableBatches(); !all {
			list = func(ctx context.Context, count uint32, cursor string) ([]jobbatch.Summary, string, error) {
				return s.batches.ListOf(ctx, prefixes, count, cursor)
			}
		}
	}
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		list, next, err := list(ctx, count, cursor)
		return func(s *session) { s.out.OK(batchesPage(list, next)) }, err
	})
}

// batchesPage returns the page of list-batches: the cursor of the next page, and a line for each batch.
func batchesPage(list []jobbatch.Summary, next string) []byte {
	var p protocol.Page
	p.Quoted("next", next)
	p.List("batches", len(list))
	for i := range list {
		summary := &list[i]
		m := new(protocol.FlowMap)
		m.Quoted("name", summary.Name)
		m.Bare("state", summary.State)
		m.Bool("sealed", summary.Sealed)
		for _, n := range batchCounts(summary) {
			m.Uint(n.word, n.count)
		}
		m.Int("age", int64(summary.Age/time.Second))
		m.Int("ttl-ms", summary.TTL.Milliseconds())
		p.Flow(m)
	}
	return p.Bytes()
}

func planListMembers(s *session, c *protocol.Command, r *request) {
	name, count, cursor := c.Key, c.MaxJobs, c.Cursor
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		jobs, next, err := s.batches.Members(ctx, name, count, cursor)
		return func(s *session) { s.out.OK(s.membersPage(s.listedJobs(jobs), next)) }, err
	})
}

// membersPage returns a page like that of list-jobs.
func (s *session) membersPage(jobs []tube.JobStats, next string) []byte {
	var p protocol.Page
	p.Word("next", next)
	p.List("jobs", len(jobs))
	for i := range jobs {
		m := new(protocol.FlowMap)
		m.Uint("id", jobs[i].ID)
		m.Bare("tube", jobs[i].Tube)
		m.Bare("state", jobs[i].State.String())
		addJob(m, s.sight(jobs[i].Tube).Job(&jobs[i]))
		p.Flow(m)
	}
	return p.Bytes()
}
