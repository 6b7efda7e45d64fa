package redis

import (
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// encodeHeartbeat sends the heartbeat, declares silent instances dead, and exchanges the
// highest ids.
func (p *partition) encodeHeartbeat(c *call) {
	now, home := p.clock.now(), boolArg(schema.PartitionOf(tube.Default, p.of) == p.number)
	dead := p.heartbeat.silent(now)
	args := []any{"beat", maxMoves, home, c.created, p.options.historyBytes() / int64(p.of), len(dead)}
	for name, seen := range dead {
		args = append(args, name, seen.beat, boolArg(now.Sub(seen.since) >= 3*schema.HeartbeatTimeout))
	}
	c.add(p.readHeartbeat, args...)
	c.add(p.readIDs, "ids", p.ids.least())
	p.dropOldNames()
}

// readHeartbeat queues calls for the rest of the work about instances that were declared dead.
func (p *partition) readHeartbeat(r *reply) {
	for range r.int64() {
		inst := r.text()
		p.reclaimLater(inst, r.int64())
	}
	p.heartbeat.saw(strings.Fields(strings.Clone(r.text())), p.instance.name(), r.sent)
}

// readIDs reads the last number that was given to a job.
func (p *partition) readIDs(r *reply) { p.ids.saw(uint64(r.int64()), r.sent) }

// encodeRef counts the connections that begin or end to use or watch tubes, once, and updates
// Redis if that cannot wait.
func (p *partition) encodeRef(c *call, u *unit, op *storage.Op) {
	progress := &u.refs
	progress.seen++
	if progress.seen <= progress.counted {
		return // counted for a call that was not carried out; these tubes are marked to be reported
	}
	progress.counted = progress.seen
	for _, name := range op.Tubes {
		if p.refs.add(name, op.Role, op.Delta) {
			p.encodeTubeRefs(c, name)
		}
	}
}

const (
	// leastDue is how many due things the concurrent ticks do at least, all of them together:
	// being late is worse than making others wait a millisecond longer. tickLeast is the
	// minimum for each of them.
	leastDue  = 64
	tickLeast = 4

	// maxTubesReported limits the tubes whose refs are reported in one call.
	maxTubesReported = 250
)

// encodeChangedRefs reports tubes whose refs have changed.
func (p *partition) encodeChangedRefs(c *call) {
	p.refs.findChanged(p.listener.Waiting)
	p.encodeUnreportedRefs(c)
}

// encodeUnreportedRefs reports tubes that findChanged has found. What is too much for one call
// is reported by the next ones.
func (p *partition) encodeUnreportedRefs(c *call) {
	for _, name := range p.refs.nextToReport(maxTubesReported) {
		p.encodeTubeRefs(c, name)
	}
	if len(p.refs.toReport) > 0 {
		p.submit(&unit{background: p.encodeUnreportedRefs})
	}
}

// encodeTubeRefs reports how many connections here use, watch and wait for a tube.
func (p *partition) encodeTubeRefs(c *call, name string) {
	waiting := 0
	if p.refs.counts(name).watching > 0 {
		waiting = p.listener.Waiting(name)
	}
	using, watching := p.refs.markReported(name, waiting)
	c.reportedTubes = append(c.reportedTubes, name)
	c.add(skipNumber, "set-refs", name, using, watching, waiting)
}

// restoreReports records that Redis was not told what the call was to report.
func (p *partition) restoreReports(c *call) {
	for _, name := range c.reportedTubes {
		p.refs.markUnreported(name)
	}
	p.holdings.emptySets = append(p.holdings.emptySets, c.emptySets...)
	c.emptySets = nil
}

const (
	// maxTubesWithTimes limits the tubes in the report of one heartbeat.
	maxTubesWithTimes = 32

	// retryTimesAfter is after how long a tube without a policy is reported again, as it may
	// have got one.
	retryTimesAfter = 10 * time.Second
)

// stats-tube of a tube with a policy shows how long jobs wait and run, as seen by all
// instances. So each instance reports to Redis with its heartbeats what it has counted since
// the last report.

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
