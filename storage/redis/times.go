package redis

import (
	"time"

	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// stats-tube of a tube with a policy shows how long jobs wait and run, as seen by all
// instances. So each instance reports to Redis with its heartbeats what it has counted since
// the last report.

const (
	// maxTubesWithTimes limits the tubes in the report of one heartbeat.
	maxTubesWithTimes = 32

	// retryTimesAfter is after how long a tube without a policy is reported again, as it may
	// have got one.
	retryTimesAfter = 10 * time.Second
)

// reportedTimes is what was reported about a tube.
type reportedTimes struct {
	waits, runs tube.Times
	notBefore   time.Time // nothing is reported before that
}

// timesNumbers returns the values of these fields.
func timesNumbers(waits, runs *tube.Times) (numbers [2 * (tube.NumTimes + 1)]int64) {
	for i, t := range []*tube.Times{waits, runs} {
		part := numbers[i*(tube.NumTimes+1):]
		for k, n := range t.Counts {
			part[k] = int64(n)
		}
		part[tube.NumTimes] = t.Sum.Milliseconds()
	}
	return numbers
}

// drop is called for a tube that does not exist any more. What was reported is gone as well.
func (f *tubeFlows) drop(name string) {
	f.flows.Drop(name)
	delete(f.reported, name)
}

// encodeTimes reports tubes in which something has happened.
func (p *partition) encodeTimes(c *call) {
	p.flow.mu.Lock()
	defer p.flow.mu.Unlock()
	now, left := time.Now(), maxTubesWithTimes
	p.flow.flows.Each(func(name string, f *tube.Flow) bool {
		before := p.flow.reported[name]
		if (f.Waits != before.waits || f.Runs != before.runs) && now.After(before.notBefore) {
			p.encodeTimesOf(c, name, f, before)
			left--
		}
		return left > 0
	})
}

// encodeTimesOf reports by how much the numbers of a tube have grown.
func (p *partition) encodeTimesOf(c *call, name string, f *tube.Flow, before reportedTimes) {
	reported := reportedTimes{waits: f.Waits, runs: f.Runs}
	now, was := timesNumbers(&reported.waits, &reported.runs), timesNumbers(&before.waits, &before.runs)
	args := []any{"add-times", name, 0}
	for i, field := range schema.TimesFields {
		if by := now[i] - was[i]; by != 0 {
			args = append(args, field, by)
		}
	}
	args[2] = (len(args) - 3) / 2
	c.add(func(r *reply) {
		if !r.found() {
			reported = before
			reported.notBefore = time.Now().Add(retryTimesAfter)
		}
		p.flow.reported[name] = reported
	}, args...)
}

// timesOf reads what all instances have reported of a tube, and adds what this one has yet to
// report.
func (f *tubeFlows) timesOf(name string, r *reply) (waits, runs tube.Times) {
	for _, t := range []*tube.Times{&waits, &runs} {
		for i := range t.Counts {
			t.Counts[i] = r.count()
		}
		t.Sum = r.ms()
	}
	if flow := f.flows.Find(name); flow != nil {
		before := f.reported[name]
		waits.Add(&flow.Waits)
		waits.Sub(&before.waits)
		runs.Add(&flow.Runs)
		runs.Sub(&before.runs)
	}
	return waits, runs
}
