package webhook

import (
	"context"
	"errors"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// retryAfter is the pause after a dispatch batch that the store has failed.
const retryAfter = 100 * time.Millisecond

// dispatch batches is the goroutine that finishes jobs and leases others, until everything is finished
// after Close.
func (d *Dispatcher) rounds() {
	defer close(d.roundsDone)
	for {
		select {
		case <-d.wakeRound:
		case <-d.calling.Done():
			d.lastRound()
			return
		}
		for d.round() {
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

// closeIdle tells Close that it need not wait any more. The lock is held.
func (d *Dispatcher) closeIdle() {
	select {
	case <-d.idle:
	default:
		close(d.idle)
	}
}

// lastRound goes on until the calls that were cut off have ended, and gives up when that takes
// too long.
func (d *Dispatcher) lastRound() {
	for begun := time.Now(); time.Since(begun) < closeGrace && !d.ended(); {
		if !d.round() {
			select {
			case <-d.wakeRound:
			case <-time.After(closeGrace):
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closeIdle()
}

// dispatch batch finishes the jobs whose calls have ended, and leases those that may be called; false if
// there is nothing of both.
func (d *Dispatcher) round() bool {
	d.mu.Lock()
	ends := d.finished[:min(len(d.finished), maxTakes)]
	d.finished = d.finished[len(ends):]
	gs := d.grants(time.Now())
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
	broken := d.told(ends, answers[:len(ends)])
	taken, failed := d.taken(gs, answers[len(ends):])
	d.start(taken)
	if broken || failed {
		time.Sleep(retryAfter)
		d.follower.storeFailed()
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
			ops = append(ops, storage.Op{Kind: storage.GetPolicy, Tube: g.outlet.name})
		}
		tubes := []string{g.outlet.name}
		for range g.n {
			ops = append(ops, storage.Op{Kind: storage.Take, Holder: tube.LeaseHolder, Tubes: tubes, Wait: true})
		}
	}
	return ops
}

// told deals with what the store has answered about jobs whose calls have ended. What it could
// not do is tried again, as long as the TTR lasts. It returns whether that is so.
func (d *Dispatcher) told(ends []finished, answers []storage.Answer) (broken bool) {
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
		case err != nil, answers[i].NotFound:
			if o := d.outlets[ends[i].job.Tube]; o != nil {
				d.countsOf(o).late++
			}
		}
		d.notLeased(ends[i].job.Body)
	}
	return broken
}

// leased is a job of a grant, and the place that it has.
type leased struct {
	grant  *grant
	permit permit // nil without a target
	job    *Job
}

// taken deals with what the store has answered to the takes of a dispatch batch. It returns the jobs.
func (d *Dispatcher) taken(gs []grant, answers []storage.Answer) (jobs []leased, failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range gs {
		g := &gs[i]
		if g.refresh {
			failed = d.checkPolicy(g.outlet, &answers[0]) || failed
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
			jobs = append(jobs, leased{grant: g, job: &Job{ID: a.ID, Lease: a.Result.Lease, Tube: g.outlet.name, Body: a.Body}})
		}
		answers = answers[g.n:]
		d.found(g, len(jobs)-from)
		for k := range jobs[from:] {
			if g.target != nil {
				jobs[from+k].permit = g.permits[k]
			}
		}
	}
	return jobs, failed
}

// checkPolicy compares the policy by which jobs of an outlet are called with the present one.
// If that is another, it is applied first. It returns whether the store has failed. The lock is
// held.
func (d *Dispatcher) checkPolicy(o *outlet, a *storage.Answer) (failed bool) {
	var now tube.Push
	switch {
	case a.Err != nil:
		return true
	case !a.NotFound:
		now = a.Result.Policy.Push
	}
	if now != o.policy && !o.stale {
		o.stale = true
		d.follower.changed(o.name)
	}
	return false
}

// start reads what is known of jobs, and has them called.
func (d *Dispatcher) start(jobs []leased) {
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
		known := a.Err == nil && !a.NotFound && l.job.learn(begun, a.Job)
		d.running++
		if !known || l.grant.outlet.stale || l.grant.outlet.gone || d.calling.Err() != nil {
			if l.job.Deadline.IsZero() {
				l.job.Deadline = begun.Add(time.Second)
			}
			d.end(l, Outcome{Verdict: GiveBack, Result: Skipped}, 0)
			continue
		}
		go d.call(l)
	}
}

// learn notes what the store knows of a job that was leased before begun; false if it is leased
// no more.
func (j *Job) learn(begun time.Time, s *tube.JobStats) bool {
	if s.State != tube.Reserved || !s.Leased {
		return false
	}
	j.Pri, j.TTR, j.Age, j.Rules = s.Pri, time.Duration(s.TTR)*time.Second, s.Age, s.Rules
	j.Deliveries, j.Deadline = s.Counters.Deliveries(), begun.Add(s.TimeLeft)
	j.Failures = s.Counters.Failures()
	if f := s.Metadata; f != nil {
		j.Key, j.FromTube, j.FromID, j.Failures = f.Key, f.FromTube, f.FromID, f.Failures(&s.Counters)
		return f.Lease == j.Lease
	}
	return true
}

// call calls one job, on a goroutine of its own.
func (d *Dispatcher) call(l leased) {
	o, begun := l.grant.outlet, time.Now()
	until := begun.Add(o.timeout())
	if l.job.Deadline.Before(until) {
		until = l.job.Deadline
	}
	ctx, cancel := context.WithDeadline(d.calling, until)
	var result Outcome
	if until.After(begun) {
		result = d.outcome(ctx, o, l.job)
	} else {
		result = Outcome{Verdict: Keep, Result: Skipped}
	}
	cancel()
	took := time.Since(begun)
	d.logFailure(o, l.grant.target, l.job, &result)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(l, result, took)
}

// end ends a call, that may not even have begun. The lock is held.
func (d *Dispatcher) end(l leased, result Outcome, took time.Duration) {
	o := l.grant.outlet
	d.count(o, result.Result, took)
	if l.permit != nil {
		l.permit(verdictOf(result.Result))
	}
	d.called(o, l.grant.target)
	op, ok := l.job.finish(result)
	if !ok {
		d.notLeased(l.job.Body)
		return
	}
	d.finished = append(d.finished, finished{l.job, op})
	d.wake()
}

// verdictOf is what a breaker is told.
func verdictOf(r Result) error {
	switch r {
	case Delivered, Gone:
		return nil
	case Postponed, Skipped:
		return errNeutral
	}
	return errFailed
}
