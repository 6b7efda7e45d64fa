package tracing

import (
	"context"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

const (
	// maxRuns limits the jobs that are watched. More jobs that run at the same time have no span of their run.
	maxRuns = 100_000

	// examineEvery is how often runs are examined whose TTR must have run out.
	examineEvery = time.Second

	// slack is how long after the end of its TTR a run is examined: by then the store knows it.
	slack = time.Second

	// examined limits how many runs are examined at a time.
	examined = 256
)

// run is a job that runs.
type run struct {
	holder   tube.Holder
	job      *tube.JobStats // at the reservation
	began    time.Time
	deadline time.Time // when its TTR runs out, as far as is known
}

// runs are the jobs that run.
type runs struct {
	mu    sync.Mutex
	by    map[tube.Holder]map[uint64]*run
	count int
}

// begin adds a run. It returns the run of the same job and holder that it replaces.
func (rs *runs) begin(r *run) (old *run, full bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if old = rs.remove(r.holder, r.job.ID); rs.count >= maxRuns {
		return old, true
	}
	if rs.by == nil {
		rs.by = make(map[tube.Holder]map[uint64]*run)
	}
	if rs.by[r.holder] == nil {
		rs.by[r.holder] = make(map[uint64]*run)
	}
	rs.by[r.holder][r.job.ID] = r
	rs.count++
	return old, false
}

// end removes a run; nil if it is not known.
func (rs *runs) end(h tube.Holder, id uint64) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.remove(h, id)
}

// endIf removes a run unless it was replaced or has ended before.
func (rs *runs) endIf(r *run) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.by[r.holder][r.job.ID] == r && rs.remove(r.holder, r.job.ID) != nil
}

// remove is end for a caller that has the lock.
func (rs *runs) remove(h tube.Holder, id uint64) *run {
	r := rs.by[h][id]
	if r == nil {
		return nil
	}
	rs.count--
	if delete(rs.by[h], id); len(rs.by[h]) == 0 {
		delete(rs.by, h)
	}
	return r
}

// endAll removes the runs of a holder.
func (rs *runs) endAll(h tube.Holder) map[uint64]*run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	of := rs.by[h]
	rs.count -= len(of)
	delete(rs.by, h)
	return of
}

// overdue returns runs whose TTR must have run out, up to examined.
func (rs *runs) overdue(now time.Time) (found []*run) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, of := range rs.by {
		for _, r := range of {
			if now.Sub(r.deadline) > slack {
				if found = append(found, r); len(found) == examined {
					return found
				}
			}
		}
	}
	return found
}

// forget removes a run whose TTR has not run out.
func (rs *runs) forget(h tube.Holder, id uint64, now time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.by[h][id]; r != nil && now.Before(r.deadline) {
		rs.remove(h, id)
	}
}

// extend moves the deadline of a run, if it is still known.
func (rs *runs) extend(h tube.Holder, id uint64, deadline func(*run) time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.by[h][id]; r != nil {
		r.deadline = deadline(r)
	}
}

// ttr is the TTR of the job, of which the server makes at least a second.
func (r *run) ttr() time.Duration { return time.Duration(max(r.job.TTR, 1)) * time.Second }

// begin notes that a job runs.
func (t *Tracer) begin(h tube.Holder, job *tube.JobStats, now time.Time) {
	r := &run{holder: h, job: job, began: now}
	r.deadline = now.Add(r.ttr())
	old, full := t.runs.begin(r)
	// The same holder gets it again: its TTR has run out, or it was a lease that has ended through another server.
	if old != nil && job.Counters[tube.Timeouts] > old.job.Counters[tube.Timeouts] {
		t.run(old, earlier(old.deadline, now), tube.ReasonTTR, tube.ReasonTTR)
	}
	if full {
		t.full.Warn(t.log, "jobs have no span of their run: too many run at the same time", "watched", maxRuns)
	}
}

// touch notes that a reservation was prolonged.
func (t *Tracer) touch(h tube.Holder, id uint64, now time.Time) {
	t.runs.extend(h, id, func(r *run) time.Time { return now.Add(r.ttr()) })
}

// left ends the runs of a connection that has ended.
func (t *Tracer) left(h tube.Holder, now time.Time) {
	for _, r := range t.runs.endAll(h) {
		t.run(r, now, "connection closed", "connection closed")
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// watch examines overdue runs until the tracer is closed.
func (t *Tracer) watch(s storage.Store) {
	ctx, stop := context.WithCancel(context.Background())
	t.stop, t.ended = stop, make(chan struct{})
	go func() {
		defer close(t.ended)
		tick := time.NewTicker(examineEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				for t.examine(ctx, s, t.runs.overdue(now)) == examined {
				}
			}
		}
	}()
}

// examine asks the store what has become of overdue runs. It returns of how many the store has said that.
func (t *Tracer) examine(ctx context.Context, s storage.Store, overdue []*run) (known int) {
	if len(overdue) == 0 {
		return 0
	}
	ops := make([]storage.Op, len(overdue))
	for i, r := range overdue {
		ops[i] = storage.Op{Kind: storage.JobStats, ID: r.job.ID}
	}
	done := make(chan struct{})
	go s.Do(&storage.Batch{Ops: ops, Done: func() { close(done) }})
	select {
	case <-done:
	case <-ctx.Done():
		return 0
	}
	for i, r := range overdue {
		if a := &ops[i].Answer; a.Err == nil {
			t.examined(r, a.Job, time.Now())
			known++
		}
	}
	return known
}

// examined decides what has become of a run, from the stats of its job; nil: it is gone.
func (t *Tracer) examined(r *run, job *tube.JobStats, now time.Time) {
	if job != nil && job.State == tube.Reserved && job.Counters[tube.Reserves] == r.job.Counters[tube.Reserves] {
		// It was touched through another server, or the store is late: then it is asked again after slack, and not at once.
		t.runs.extend(r.holder, r.job.ID, func(*run) time.Time { return now.Add(max(job.TimeLeft, 0)) })
		return
	}
	if !t.runs.endIf(r) {
		return
	}
	expired := job != nil && job.Counters[tube.Timeouts] > r.job.Counters[tube.Timeouts]
	dead := job == nil && r.holder != tube.LeaseHolder // no other server can have finished it, so it is a dead letter
	if expired || dead {
		t.run(r, r.deadline, tube.ReasonTTR, tube.ReasonTTR)
	}
}
