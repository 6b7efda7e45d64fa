package redis

import (
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// encodePeek appends a Peek or a PeekHead.
func encodePeek(c *call, op *storage.Op) {
	if op.Kind == storage.Peek {
		c.words("peek")
		c.addID(op.ID)
	} else {
		c.words("head", op.State.String(), &op.Tube)
	}
	c.expect((*partition).readPeek, op)
}

// readPeek reads a job that was peeked at. Nobody holds it, so it can be deleted before its
// record is read: then it is requested again.
func (p *partition) readPeek(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	v := r.verdict(ops[0])
	if a.NotFound = v == lua.Refused; v != lua.Done {
		return
	}
	id, job := p.nextTaken(r)
	switch {
	case r.err != nil:
	case id == 0:
		r.cutOff(ops)
	default:
		a.ID, a.Body = id, job.body
	}
}

func (p *partition) readFound(r *reply, ops []*storage.Op) { ops[0].Answer.NotFound = !r.found() }

func (p *partition) readJobStats(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	if a.NotFound = !r.found(); !a.NotFound {
		a.Job = r.jobStats(ops[0].ID)
		p.addHolder(a.Job, r.text())
	}
}

// addHolder adds who holds a job: an instance says which of its connections does.
func (p *partition) addHolder(s *tube.JobStats, instance string) {
	switch {
	case s == nil || s.State != tube.Reserved:
	case s.Leased:
		s.Holder = tube.LeaseHolder
	case instance != p.instance.name():
		s.HeldAt = instance
	default:
		if held := p.holdings.get(s.ID); held != nil {
			s.Holder = held.holder
		}
	}
}

// jobStats reads the answer of job-stats; nil if it is malformed.
func (r *reply) jobStats(id uint64) *tube.JobStats {
	s := &tube.JobStats{ID: id, State: schema.StateOf(r.text()), Age: r.ms(), TimeLeft: r.ms()}
	rec := r.record()
	s.Held = tube.Held(r.int64())
	if r.err != nil || s.Held > tube.LastHeld {
		return nil
	}
	addRecord(s, rec)
	if rec.HasMetadata() {
		block, policy, leased, pending, progress, checkpoint := r.text(), r.policies(), r.found(), r.text(), r.text(), r.count()
		if f, err := schema.ParseMetadata(block); err == nil { // else fsck reports it
			f.PendingDead, f.Progress, f.Checkpoint.Size = pending, progress, uint32(checkpoint)
			s.Metadata, s.Rules, s.Leased = f, policy.RulesOver(f.OwnRules(s.Tube)), leased
		}
	}
	return s
}

// addRecord adds what the header of a record says.
func addRecord(s *tube.JobStats, rec schema.Record) {
	s.Tube, s.Pri, s.Delay, s.TTR, s.Created, s.Counters = rec.Tube(), rec.Pri(), rec.Delay(), rec.TTR(), rec.Created(), rec.Counters()
	if s.State == tube.Reserved {
		s.Counters[tube.Reserves]++ // the record counts it when the reservation ends
	}
}

// leasedStats returns the stats of a job that was leased just now, as job-stats would answer; nil if its record does not
// say all of that, or its metadata is broken.
func (p *partition) leasedStats(r *reply, id uint64, rec schema.Record, policy *tube.Policy) *tube.JobStats {
	f, err := rec.Metadata()
	if err != nil || rec.HasReports() {
		return nil
	}
	s := &tube.JobStats{
		ID: id, State: tube.Reserved, Leased: true, Holder: tube.LeaseHolder, Metadata: f, Rules: policy.RulesOver(f.OwnRules(rec.Tube())),
		Age: max(time.Duration(p.redisTime(r)-rec.CreatedMs())*time.Millisecond, 0), TimeLeft: time.Duration(rec.TTR()) * time.Second,
	}
	addRecord(s, rec)
	return s
}

// encodeTubeStats appends the first requests for stats of tubes, and returns how many. u is the unit from
// which they come.
func (p *partition) encodeTubeStats(c *call, u *unit, ops []*storage.Op) int {
	n := alike(ops, func(op *storage.Op) bool { return op.Kind == storage.TubeStats && op.Info == ops[0].Info })
	fresh := slices.DeleteFunc(slices.Clone(ops[:n]), func(op *storage.Op) bool { return u.many.limits[op] != nil })
	if len(fresh) > 0 {
		c.words("tube-stats", len(fresh))
		here := make([]refCounts, len(fresh))
		for i, op := range fresh {
			here[i] = p.refs.counts(op.Tube)
			c.words(&op.Tube)
		}
		c.expect(readTubeStats(here), fresh...)
	}
	if ops[0].Info {
		encodeLimitStats(c, u, ops[:n])
	}
	return n
}

// readTubeStats reads the stats of tubes. here is how many connections of this instance use and
// watch each of them, which Redis does not add.
func readTubeStats(here []refCounts) func(*partition, *reply, []*storage.Op) {
	return func(p *partition, r *reply, ops []*storage.Op) {
		for i, op := range ops {
			if op.Answer.NotFound = !r.found(); op.Answer.NotFound {
				p.flow.drop(op.Tube)
				continue
			}
			op.Answer.TubeStats = p.readTube(r, op.Tube, here[i])
		}
	}
}

func (p *partition) readTube(r *reply, name string, here refCounts) *tube.TubeStats {
	s := &tube.TubeStats{Name: name, Urgent: r.count(), Ready: r.count(), Delayed: r.count(), Buried: r.count(), Total: r.count(), Deletes: r.count(), Pauses: r.count()}
	s.Pause, s.PauseLeft = uint32(r.int64()), r.ms()
	s.Using, s.Watching, s.Waiting = r.count()+uint64(here.using), r.count()+uint64(here.watching), r.count()
	s.OldestReady, s.Expired = max(r.ms(), 0), r.count()
	if s.HasPolicy = r.found(); s.HasPolicy {
		s.Waits, s.Runs = p.flow.timesOf(name, r)
	}
	elsewhere := s.Deletes + s.Ready + s.Delayed + s.Buried
	s.Reserved = s.Total - min(s.Total, elsewhere)
	return s
}

func (p *partition) readStats(r *reply, ops []*storage.Op) {
	t := tube.Totals{Urgent: r.count(), Ready: r.count(), Reserved: r.count(), Delayed: r.count(), Buried: r.count(), Jobs: r.count()}
	t.Timeouts, t.Tubes = r.count(), r.count()
	ops[0].Answer.Stats = &storage.Figures{
		Totals: t, Instances: r.count(), Ended: r.count(), EndedBytes: r.count(), Hung: r.count(),
		HeldKeys: r.count(), Checkpoints: tube.CheckpointTotals{Jobs: r.count(), Bytes: r.count()},
	}
}

// encodeListHung appends a ListHung.
func encodeListHung(c *call, op *storage.Op) {
	c.words("list-hung", countOf(op), op.Args.Skip)
	c.expect((*partition).readListHung, op)
}

// readListHung reads the jobs that count as hung.
func (p *partition) readListHung(r *reply, ops []*storage.Op) {
	result := new(storage.Result)
	ops[0].Answer.Count = r.int()
	for range r.int64() {
		id, held := r.count(), r.ms()
		s := r.jobStats(id)
		if s == nil {
			return
		}
		s.HeldFor = held
		result.Jobs = append(result.Jobs, *s)
	}
	sortByID(result.Jobs)
	ops[0].Answer.Result = result
}

// encodeTubes requests the next part of the list of tubes.
func encodeTubes(c *call, u *unit, op *storage.Op) {
	c.words("tubes", u.listing.next(), maxTubes)
	c.expect(readTubes(u), op)
}

// readTubes reads a part of the list of tubes.
func readTubes(u *unit) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		l := &u.listing
		l.from = r.int()
		names := make([]string, r.int())
		for i := range names {
			names[i] = r.text()
		}
		l.names = append(names, l.names...)
		if l.from > 0 {
			u.againLater()
			return
		}
		ops[0].Answer.Names = firsts(l.names)
		*l = listing{}
	}
}

// firsts returns names without duplicates.
func firsts(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		was := seen[name]
		seen[name] = true
		return was
	})
}
