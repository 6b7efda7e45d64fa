package jobbatch

import (
	"context"
	"sync/atomic"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

const (
	// mostDue is how many due records are asked for at a time, of each part of a store, which can return fewer. They are examined together.
	mostDue = 64
	// mostAfter is how many after-jobs are let go or parked by one operation.
	mostAfter = 256
	// mostReadings is how often a batch is read again, see readAgain.
	mostReadings = 10
	// mostWaiting is how many batches are read at most in search of a cycle.
	mostWaiting = 64
)

// Counts are what a Service has done since it was created.
type Counts struct {
	Batches   [tube.LastVerdict + 1]atomic.Uint64 // about which this became the verdict
	After     [tube.LastVerdict + 1]atomic.Uint64 // after-jobs that were let go, or parked, because of it
	Cancelled atomic.Uint64                       // calls of Cancel
}

// Run examines batches that are due, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.queue.RecordsDue(tube.JobBatches):
		}
		for ctx.Err() == nil && s.examineDue(ctx) {
		}
	}
}

// examineDue examines batches that are due, perhaps not all. It returns whether there can be more. One call must be short, because a
// batch that has just ended waits for it.
func (s *Service) examineDue(ctx context.Context) (more bool) {
	due, err := s.queue.DueRecords(ctx, tube.JobBatches, mostDue)
	if err != nil {
		s.failed("batches that are due could not be read", err)
		return false
	}
	if len(due.Records) == 0 {
		return false
	}
	batches, err := s.read(ctx, namesOf(due.Records))
	if err != nil {
		s.failed("batches that are due could not be read", err)
		return true
	}
	verdicts, err := s.decide(ctx, batches)
	if err != nil {
		s.failed("batches that are due could not be read again", err)
		return true
	}
	s.settle(ctx, batches, verdicts)
	return true
}

// namesOf returns the names of batches, each once.
func namesOf(parts []tube.NamedRecord) (names []string) {
	seen := map[string]bool{}
	for _, p := range parts {
		if name := p.RecordName(); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// read reads batches from all parts of the store. Those that do not exist have no parts.
func (s *Service) read(ctx context.Context, names []string) ([]*batch, error) {
	ops := make([]storage.Op, len(names))
	for i, name := range names {
		ops[i] = storage.Op{Kind: storage.GetRecord, Records: tube.JobBatches, Args: &storage.Args{Name: name}}
	}
	answers, err := s.queue.Do(ctx, ops...)
	if err != nil {
		return nil, err
	}
	batches := make([]*batch, len(names))
	for i := range answers {
		switch a := &answers[i]; {
		case a.Err != nil:
			return nil, a.Err
		case a.NotFound || a.Result == nil:
			batches[i] = &batch{name: names[i]}
		default:
			batches[i] = batchOf(names[i], a.Result)
		}
	}
	return batches, nil
}

// decide returns the verdict on each batch, which it can read again.
func (s *Service) decide(ctx context.Context, batches []*batch) ([]tube.Verdict, error) {
	if err := s.readAgain(ctx, batches); err != nil {
		return nil, err
	}
	verdicts := make([]tube.Verdict, len(batches))
	for i, b := range batches {
		sum := b.summary()
		verdicts[i] = b.verdict(&sum)
		if ended(verdicts[i]) || !sum.Sealed || sum.AfterHeld == 0 {
			continue
		}
		cyclic, err := s.isCyclic(ctx, b)
		if err != nil {
			return nil, err
		}
		if cyclic {
			verdicts[i] = tube.BatchCyclic
		}
	}
	return verdicts, nil
}

// readAgain reads batches of several parts that seem to have ended again, until nothing has changed: a member can have been
// moved from a part that was not yet read to one that was. If that does not help, the batch has no parts afterwards; it
// is due again when the claims end.
func (s *Service) readAgain(ctx context.Context, batches []*batch) error {
	for range mostReadings {
		var unsure []int
		var names []string
		for i, b := range batches {
			sum := b.summary()
			if b.of > 1 && !b.sure && ended(b.verdict(&sum)) {
				unsure, names = append(unsure, i), append(names, b.name)
			}
		}
		if len(unsure) == 0 {
			return nil
		}
		again, err := s.read(ctx, names)
		if err != nil {
			return err
		}
		for k, i := range unsure {
			again[k].sure = again[k].unchanged(batches[i])
			batches[i] = again[k]
		}
	}
	for i, b := range batches {
		if sum := b.summary(); b.of > 1 && !b.sure && ended(b.verdict(&sum)) {
			batches[i] = &batch{name: b.name, of: b.of}
		}
	}
	return nil
}

// isCyclic reports whether members of b wait, perhaps over other batches, for after-jobs of b: for ever. It follows the
// after-jobs that are known of each batch, and gives up after mostWaiting batches.
func (s *Service) isCyclic(ctx context.Context, b *batch) (bool, error) {
	seen := map[string]bool{}
	for level := []*batch{b}; len(level) > 0; {
		var next []string
		for _, of := range level {
			for _, name := range of.waiting() {
				if name == b.name {
					return true, nil
				}
				if !seen[name] && len(seen) < mostWaiting {
					seen[name] = true
					next = append(next, name)
				}
			}
		}
		if len(next) == 0 {
			break
		}
		var err error
		if level, err = s.read(ctx, next); err != nil {
			return false, err
		}
	}
	return false, nil
}

// waiting returns the batches of which after-jobs of b are members.
func (b *batch) waiting() (names []string) {
	for _, p := range b.parts {
		for i := range p.After {
			if f := p.After[i].Metadata; f != nil && f.Batch != "" && p.After[i].State == tube.Delayed {
				names = append(names, f.Batch)
			}
		}
	}
	return names
}

// settle tells the parts of the store the verdicts: first those that are not due, and then, about batches of which
// all of these have answered, those that are.
func (s *Service) settle(ctx context.Context, batches []*batch, verdicts []tube.Verdict) {
	var others, due []storage.Op
	for i, b := range batches {
		first, last := b.settlements(verdicts[i])
		others, due = append(others, settleOps(b.name, first)...), append(due, settleOps(b.name, last)...)
	}
	failed := map[string]bool{}
	s.tell(ctx, others, failed)
	kept := due[:0]
	for _, op := range due {
		if !failed[op.Args.Name] {
			kept = append(kept, op)
		}
	}
	s.tell(ctx, kept, failed)
	for i, b := range batches {
		if !failed[b.name] && len(b.parts) > 0 {
			s.count(b, verdicts[i])
		}
	}
}

func settleOps(name string, settlements []*tube.Settlement) []storage.Op {
	ops := make([]storage.Op, len(settlements))
	for i, settle := range settlements {
		ops[i] = storage.Op{Kind: storage.SettleBatch, MaxJobs: mostAfter, Args: &storage.Args{Name: name, Settle: settle}}
	}
	return ops
}

// tell submits settlements, and adds the batches of those that failed. Of those that were overtaken the part is due again.
func (s *Service) tell(ctx context.Context, ops []storage.Op, failed map[string]bool) {
	for len(ops) > 0 {
		part := ops[:min(len(ops), mostDue)]
		ops = ops[len(part):]
		answers, err := s.queue.Do(ctx, part...)
		for i := range part {
			name := part[i].Args.Name
			if err != nil || answers[i].Err != nil {
				failed[name] = true
			} else {
				s.Counts.After[part[i].Args.Settle.Verdict].Add(uint64(answers[i].Count))
			}
		}
		if err != nil {
			s.failed("the end of batches could not be recorded", err)
			continue
		}
		for i := range answers {
			if answers[i].Err != nil {
				s.failed("the end of a batch could not be recorded", answers[i].Err, "batch", part[i].Args.Name)
			}
		}
	}
}

// count counts and logs a verdict that was told all parts, unless one of them knew it.
func (s *Service) count(b *batch, v tube.Verdict) {
	for _, p := range b.parts {
		if p.Verdict == v {
			return
		}
	}
	s.Counts.Batches[v].Add(1)
	if v == tube.BatchDone || v == tube.BatchOpen {
		return
	}
	sum := b.summary()
	s.log.Info("the after-jobs of a batch, or some, are parked or run though not all members are done", "batch", b.name, "verdict", v,
		"members", sum.Total(), "pending", sum.Pending, "parked", sum.Parked, "gone", sum.Gone, "after_jobs", sum.AfterHeld+sum.AfterFailed)
}

// failed logs that something will be tried again.
func (s *Service) failed(what string, err error, args ...any) {
	queue.LogRetry(s.log, &s.logFailed, what, err, args...)
}
