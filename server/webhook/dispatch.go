package webhook

import (
	"context"
	"errors"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// retryAfter is the pause after a dispatch in which the store has failed.
const retryAfter = 100 * time.Millisecond

// runDispatch runs dispatches, which finish jobs and lease others. It returns after
// Close, when no job is leased any more.
func (d *Dispatcher) runDispatch() {
	defer close(d.dispatchDone)
	for {
		select {
		case <-d.wakeDispatch:
		case <-d.calling.Done():
			d.finishCalls()
			return
		}
		for d.dispatch() {
		}
		if d.ended() {
			return
		}
	}
}

// ended reports whether Close was called and nothing is leased any more.
func (d *Dispatcher) ended() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	ok := d.closing && d.leased == 0
	if ok {
		d.closeIdle()
	}
	return ok
}

// closeIdle makes Close return. The lock is held.
func (d *Dispatcher) closeIdle() {
	select {
	case <-d.idle:
	default:
		close(d.idle)
	}
}

// finishCalls runs dispatches until the calls that were cut off have ended, for at most
// closeGrace.
func (d *Dispatcher) finishCalls() {
	for begun := time.Now(); time.Since(begun) < closeGrace && !d.ended(); {
		if !d.dispatch() {
			select {
			case <-d.wakeDispatch:
			case <-time.After(closeGrace):
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closeIdle()
}

// dispatch finishes the jobs whose calls have ended, and leases those that can be
// called, in one batch for all tubes. It returns false if there was nothing to do.
func (d *Dispatcher) dispatch() bool {
	d.mu.Lock()
	ends := d.finished[:min(len(d.finished), maxTakes)]
	d.finished = d.finished[len(ends):]
	gs := d.grants()
	d.mu.Unlock()
	if len(ends) == 0 && len(gs) == 0 {
		return false
	}
	ops := make([]storage.Op, 0, len(ends)+maxTakes)
	for i := range ends {
		ops = append(ops, ends[i].op)
	}
	ops = appendTakes(ops, gs)
	answers, err := d.queue.Do(context.Background(), ops...)
	if err != nil {
		answers = failed(len(ops), err)
	}
	broken := d.handleFinished(ends, answers[:len(ends)])
	taken, failed := d.handleTaken(gs, answers[len(ends):])
	d.startCalls(taken)
	if broken || failed {
		time.Sleep(retryAfter)
		d.policies.storeFailed()
	}
	return true
}

func failed(n int, err error) []storage.Answer {
	answers := make([]storage.Answer, n)
	for i := range answers {
		answers[i].Err = err
	}
	return answers
}

func appendTakes(ops []storage.Op, gs []grant) []storage.Op {
	for i := range gs {
		g := &gs[i]
		if g.refresh {
			ops = append(ops, storage.Op{Kind: storage.GetPolicy, Tube: g.sub.name})
		}
		tubes := []string{g.sub.name}
		for range g.n {
			ops = append(ops, storage.Op{Kind: storage.Take, Holder: tube.LeaseHolder, Tubes: tubes, Wait: true})
		}
	}
	return ops
}

// handleFinished handles the store's answers about jobs whose calls have ended. An operation
// that failed in the store is tried again until the TTR of its job ends. handleFinished
// reports whether there is such an operation.
func (d *Dispatcher) handleFinished(ends []finished, answers []storage.Answer) (broken bool) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range ends {
		err := answers[i].Err
		switch {
		case err != nil && !errors.Is(err, storage.ErrClosed) && now.Before(ends[i].job.Deadline) && d.calling.Err() == nil:
			d.finished = append(d.finished, ends[i])
			broken = true
			d.wake()
			continue
		case err == nil && answers[i].Result != nil && answers[i].Result.NotKept: // no result after all
			ends[i].op.Move = tube.Delete
			d.finished = append(d.finished, ends[i])
			d.wake()
			continue
		case err != nil, answers[i].NotFound:
			if sub := d.subscriptions[ends[i].job.Tube]; sub != nil {
				d.countsOf(sub).late++
			}
		}
		d.endLease(ends[i].job.Body)
	}
	return broken
}

// leased is a job of a grant, with its permit.
type leased struct {
	grant  *grant
	permit permit // nil without a target
	job    *Job
}

// handleTaken handles the store's answers to the takes of a dispatch. It returns the
// jobs.
func (d *Dispatcher) handleTaken(gs []grant, answers []storage.Answer) (jobs []leased, failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range gs {
		g := &gs[i]
		if g.refresh {
			failed = d.checkPolicy(g.sub, &answers[0]) || failed
			answers = answers[1:]
		}
		from := len(jobs)
		for k := range g.n {
			a := &answers[k]
			failed = failed || a.Err != nil
			if a.Err != nil || a.NotFound || a.Result == nil {
				continue
			}
			d.bytes += len(a.Body)
			jobs = append(jobs, leased{grant: g, job: &Job{ID: a.ID, Lease: a.Result.Lease, Tube: g.sub.name, Body: a.Body}})
		}
		answers = answers[g.n:]
		d.adjustBatchSize(g, len(jobs)-from)
		for k := range jobs[from:] {
			if g.target != nil {
				jobs[from+k].permit = g.permits[k]
			}
		}
	}
	return jobs, failed
}

// checkPolicy compares the policy of a subscription with the current one. If they differ,
// the current one is applied first. It reports whether the store has failed. The lock is
// held.
func (d *Dispatcher) checkPolicy(sub *subscription, a *storage.Answer) (failed bool) {
	var now tube.Push
	switch {
	case a.Err != nil:
		return true
	case !a.NotFound:
		now = a.Result.Policy.Push
	}
	if now != sub.policy && !sub.stale {
		sub.stale = true
		d.policies.changed(sub.name)
	}
	return false
}

// startCalls reads the stats of jobs, and starts their calls.
func (d *Dispatcher) startCalls(jobs []leased) {
	if len(jobs) == 0 {
		return
	}
	ops := make([]storage.Op, len(jobs))
	for i := range jobs {
		ops[i] = storage.Op{Kind: storage.JobStats, ID: jobs[i].job.ID}
	}
	begun := time.Now()
	answers, err := d.queue.Do(context.Background(), ops...)
	if err != nil {
		answers = failed(len(ops), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range jobs {
		l, a := jobs[i], &answers[i]
		known := a.Err == nil && !a.NotFound && l.job.setStats(begun, a.Job)
		d.running++
		if !known || l.grant.sub.stale || l.grant.sub.gone || d.calling.Err() != nil {
			if l.job.Deadline.IsZero() {
				l.job.Deadline = begun.Add(time.Second)
			}
			d.endCall(l, Outcome{Verdict: GiveBack, Result: Skipped}, 0)
			continue
		}
		go d.makeCall(l)
	}
}

// setStats copies the stats of a job that was leased before begun. It returns false if the
// lease has ended.
func (j *Job) setStats(begun time.Time, s *tube.JobStats) bool {
	if s.State != tube.Reserved || !s.Leased {
		return false
	}
	j.Pri, j.TTR, j.Age, j.Rules = s.Pri, time.Duration(s.TTR)*time.Second, s.Age, s.Rules
	j.Deliveries, j.Deadline = s.Counters.Deliveries(), begun.Add(s.TimeLeft)
	j.Failures = s.Counters.Failures()
	if f := s.Metadata; f != nil {
		j.Key, j.Group, j.FromTube, j.FromID, j.Failures, j.Notes = f.Key, f.Group, f.FromTube, f.FromID, f.Failures(&s.Counters), f.Notes
		j.Occurrence, j.checkpointBytes = f.Occurrence, f.CheckpointSize()
		return f.Lease == j.Lease
	}
	return true
}

// makeCall makes the call for one job, on a goroutine of its own.
func (d *Dispatcher) makeCall(l leased) {
	sub, begun := l.grant.sub, time.Now()
	until := begun.Add(sub.timeout())
	if l.job.Deadline.Before(until) {
		until = l.job.Deadline
	}
	ctx, cancel := context.WithDeadline(d.calling, until)
	var result Outcome
	if until.After(begun) {
		result = d.callJob(ctx, sub, l.job)
	} else {
		result = Outcome{Verdict: Keep, Result: Skipped}
	}
	cancel()
	took := time.Since(begun)
	d.logFailure(sub, l.grant.target, l.job, &result)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endCall(l, result, took)
}

// endCall ends a call, which may not even have begun. The lock is held.
func (d *Dispatcher) endCall(l leased, result Outcome, took time.Duration) {
	sub := l.grant.sub
	d.count(sub, result.Result, took)
	if l.permit != nil {
		l.permit(verdictOf(result.Result))
	}
	d.callEnded(sub, l.grant.target)
	op, ok := l.job.finish(result)
	if !ok {
		d.endLease(l.job.Body)
		return
	}
	d.finished = append(d.finished, finished{l.job, op})
	d.wake()
}

// verdictOf returns what a result means for the circuit breaker.
func verdictOf(r Result) error {
	switch r {
	case Delivered, Gone:
		return nil
	case Postponed, Skipped:
		return errNeutral
	}
	return errFailed
}
