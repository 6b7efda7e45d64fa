package schedule

import (
	"context"
	"sync/atomic"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

const (
	// mostDue is how many due records are asked for at a time, of each part of a store.
	mostDue = 64
	// mostOps is how many operations are submitted at a time.
	mostOps = 64
)

// Counts are what a Service has done since it was created.
type Counts struct {
	Put, Overlapped, Refused, Missed, Stopped atomic.Uint64

	// Lag is how long after it was due an occurrence was put, ns.
	Lag *telemetry.Histogram
}

// Run puts the jobs of schedules that are due, until ctx ends. While the queue is draining it waits. It lets
// schedules go on if the clock of the store is set back, also if that was before.
func (s *Service) Run(ctx context.Context) {
	var back time.Duration // 0: only the records can tell
	check := time.NewTimer(0)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case by := <-s.queue.ClockSetBack():
			back = max(back, by)
			check.Reset(setBackAfter)
		case <-check.C:
			if err := s.clockSetBack(ctx, back); err != nil {
				s.failed("schedules could not be examined for a clock that was set back", err)
				check.Reset(tube.ClaimTime)
			} else {
				back = 0
			}
		case <-s.queue.RecordsDue(tube.Schedules):
		}
		for ctx.Err() == nil && !s.queue.Draining() && s.putDue(ctx) {
		}
	}
}

// putDue puts the jobs of schedules that are due, perhaps not of all. It returns whether there were any.
func (s *Service) putDue(ctx context.Context) (more bool) {
	a, err := s.queue.DueRecords(ctx, tube.Schedules, mostDue)
	if err != nil {
		s.failed("schedules that are due could not be read", err)
		return false
	}
	var steps []step
	for _, due := range a.Schedules() {
		its, missed, err := examine(due, a.Now)
		if err != nil {
			s.failed("a schedule cannot be run by this version", err, "schedule", due.Name)
			continue
		}
		if missed > 0 {
			s.Counts.Missed.Add(missed)
			s.log.Warn("occurrences of a schedule were missed", "schedule", due.Name, "missed", missed, "since", at(due.Next))
		}
		steps = append(steps, its...)
	}
	for len(steps) > 0 {
		n := min(len(steps), mostOps)
		s.do(ctx, steps[:n], a.Now)
		steps = steps[n:]
	}
	return len(a.Records) > 0
}

// do carries out steps. If a record was changed by others meanwhile, what is left of its steps does
// nothing; it is due again if that is still so.
func (s *Service) do(ctx context.Context, steps []step, now tube.Instant) {
	ops := make([]storage.Op, len(steps))
	for i := range steps {
		ops[i] = steps[i].op()
	}
	answers, err := s.queue.Do(ctx, ops...)
	if err != nil {
		s.failed("jobs of schedules could not be put", err)
		return
	}
	for i := range answers {
		switch a := &answers[i]; {
		case a.Err != nil:
			s.failed("the job of a schedule could not be put", a.Err, "schedule", steps[i].record.Name)
		case !a.NotFound && steps[i].nominal != 0:
			s.count(&steps[i], a, now)
		}
	}
}

// count counts a put.
func (s *Service) count(p *step, a *storage.Answer, now tube.Instant) {
	switch a.Outcome {
	case tube.PutNew:
		s.Counts.Put.Add(1)
		s.Counts.Lag.Add(int64(max(now-dueOf(p.record, p.nominal), 0)))
	case tube.PutRefused:
		s.Counts.Refused.Add(1)
		s.log.Warn("a job of a schedule was not put: the tube has reached its quota", "schedule", p.record.Name, "tube", p.record.Tube)
	case tube.PutSealed:
		s.Counts.Refused.Add(1)
		s.log.Warn("a job of a schedule was not put: its batch is sealed", "schedule", p.record.Name, "batch", p.record.Tags.Batch)
	default:
		s.Counts.Overlapped.Add(1)
		s.log.Info("a job of a schedule was not put: the one before is still there", "schedule", p.record.Name, "job", a.ID)
	}
}

// failed logs that something will be tried again.
func (s *Service) failed(what string, err error, args ...any) {
	queue.LogRetry(s.log, &s.logFailed, what, err, args...)
}
