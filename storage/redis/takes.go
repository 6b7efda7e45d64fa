package redis

import (
	"fmt"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// encodeTakes appends the first takes from one tube, and returns how many.
func encodeTakes(c *call, ops []*storage.Op) int {
	first, wait := ops[0], false
	n := alike(ops, func(op *storage.Op) bool {
		return op.Kind == storage.Take && op.Holder != tube.LeaseHolder && op.MaxBytes == 0 && len(op.Tubes) == 1 && op.Tubes[0] == first.Tubes[0]
	})
	for _, op := range ops[:n] {
		wait = wait || op.Wait
	}
	c.words("take", &first.Tubes[0], boolArg(wait), n)
	c.expect((*partition).readTakes, ops[:n]...)
	return n
}

// addFirst appends that the take which follows is from the first of its tubes that has a job.
func (c *call) addFirst(op *storage.Op) {
	if op.First {
		c.words("first")
	}
}

// encodeTakeAny appends a take from several tubes.
func encodeTakeAny(c *call, op *storage.Op) {
	c.words("take-any", boolArg(op.Wait), len(op.Tubes))
	c.addTubes(op.Tubes)
	c.expect((*partition).readTakeAny, op)
}

// encodeTakeBefore appends a take of a job that comes before another job.
func encodeTakeBefore(c *call, op *storage.Op, other *head) {
	if op.Holder == tube.LeaseHolder {
		encodeTakeLease(c, op, other)
		return
	}
	if op.MaxBytes > 0 {
		encodeTakeWithin(c, op, other)
		return
	}
	c.words("take-before", other.pri)
	c.addID(other.id)
	c.words(len(op.Tubes))
	c.addTubes(op.Tubes)
	c.expect((*partition).readTakeAny, op)
}

// encodeTakeWithin appends a take of a job with a limited body size, which comes before another
// job if that is not nil.
func encodeTakeWithin(c *call, op *storage.Op, other *head) {
	c.words("take-within", int(op.MaxBytes))
	if other == nil {
		c.words("", "")
	} else {
		c.words(other.pri)
		c.addID(other.id)
	}
	c.words(len(op.Tubes))
	c.addTubes(op.Tubes)
	c.expect((*partition).readTakeAny, op)
}

// encodeTakeLease appends a take with a lease, of a job that comes before another one if that
// is not nil.
func encodeTakeLease(c *call, op *storage.Op, before *head) {
	c.words("take-lease", boolArg(op.Wait), int(op.MaxBytes))
	if before == nil {
		c.words("", "")
	} else {
		c.words(before.pri)
		c.addID(before.id)
	}
	c.words(len(op.Tubes))
	c.addTubes(op.Tubes)
	c.expect((*partition).readTakeLease, op)
}

// readTakes reads a sequence of takes. The first ones have got a job; the others found none, or
// are cut.
func (p *partition) readTakes(r *reply, ops []*storage.Op) {
	got := r.int()
	if got < 0 {
		got = min(-got-1, len(ops))
		r.cutOff(ops[got:])
		ops = ops[:got]
	}
	for i, op := range ops {
		if i >= got {
			p.noJob(op)
			continue
		}
		id, job := p.nextTaken(r)
		p.take(r, op, id, job, r.set)
	}
}

// readTakeAny reads a take from several tubes.
func (p *partition) readTakeAny(r *reply, ops []*storage.Op) {
	switch op := ops[0]; r.verdict(op) {
	case lua.Done:
		id, job := p.nextTaken(r)
		p.take(r, op, id, job, r.set)
	case lua.Refused:
		p.noJob(op)
	}
}

// readTakeLease reads a take with a lease.
func (p *partition) readTakeLease(r *reply, ops []*storage.Op) {
	op := ops[0]
	switch r.verdict(op) {
	case lua.Refused:
		noLease(op)
	case lua.Done:
		p.takeLease(r, op, uint64(r.parse(r.text())))
	}
}

func noLease(op *storage.Op) { op.Answer.NotFound, op.Answer.Soon = true, storage.Forever }

// takeLease answers a take with the next job that was taken, which is no holding of this instance. The
// job can be gone if its lease ended before the reply was repeated: then another job is requested.
func (p *partition) takeLease(r *reply, op *storage.Op, lease uint64) schema.Record {
	id, job := p.nextTaken(r)
	if id == 0 {
		r.cutOff([]*storage.Op{op})
		return ""
	}
	job.tube = nameFor(op, job.tube)
	op.Answer.ID, op.Answer.Body = id, job.body
	op.Answer.Result = &storage.Result{Lease: lease}
	p.noteDelivered(r, op, &job)
	return job.record
}

// takesLeaseOf returns whether op leases a job of one tube, with a body of any size.
func takesLeaseOf(op *storage.Op) bool {
	return op.Kind == storage.Take && op.Holder == tube.LeaseHolder && op.MaxBytes == 0 && len(op.Tubes) == 1
}

// encodeLeases appends the first takes with leases from one tube, and returns how many.
func encodeLeases(c *call, ops []*storage.Op) int {
	first, wait := ops[0], false
	n := alike(ops, func(op *storage.Op) bool {
		return takesLeaseOf(op) && op.Tubes[0] == first.Tubes[0] && op.Info == first.Info
	})
	for _, op := range ops[:n] {
		wait = wait || op.Wait
	}
	c.words("lease", &first.Tubes[0], boolArg(wait), n, boolArg(first.Info))
	c.expect((*partition).readLeases, ops[:n]...)
	return n
}

// readLeases reads a sequence of takes with leases, like readTakes.
func (p *partition) readLeases(r *reply, ops []*storage.Op) {
	got := r.int()
	if got < 0 {
		got = min(-got-1, len(ops))
		r.cutOff(ops[got:])
		ops = ops[:got]
	}
	got = min(got, len(ops))
	leases := make([]uint64, got)
	for i := range leases {
		leases[i] = r.count()
	}
	var policy *tube.Policy
	if got > 0 && ops[0].Info {
		policy = r.policies()
	}
	for i, op := range ops {
		if i >= got {
			noLease(op)
		} else if rec := p.takeLease(r, op, leases[i]); op.Info && rec != "" {
			op.Answer.Job = p.leasedStats(r, op.Answer.ID, rec, policy)
		}
	}
}

// nextTaken returns the next job that was taken or peeked at; 0 if its record is gone.
func (p *partition) nextTaken(r *reply) (id uint64, j job) {
	if id = r.nextID(); r.err != nil {
		return 0, job{}
	}
	if r.cached {
		job, ok := p.bodies.take(id)
		if !ok {
			r.err = fmt.Errorf("%w: job %d is not in the body cache", errReply, id)
		}
		return id, job
	}
	if r.recordless {
		return id, job{}
	}
	if len(r.records) == 0 {
		r.err = errReply
		return 0, job{}
	}
	next := r.records[0]
	r.records = r.records[1:]
	if j, cached := next.(job); cached {
		return id, j
	}
	if next == nil {
		return 0, job{} // its record is gone
	}
	text, _ := next.(string)
	if text == "" { // it was gone when the reply was repeated
		return 0, job{}
	}
	rec := schema.Record(text)
	if !rec.Valid() {
		r.err = errReply
		return 0, job{}
	}
	return id, jobOf(rec)
}

func (p *partition) take(r *reply, op *storage.Op, id uint64, j job, in *leaseSet) {
	if r.err != nil {
		return
	}
	if id == 0 {
		r.cutOff([]*storage.Op{op})
		return
	}
	op.Answer.ID, op.Answer.Body = id, j.body
	j.tube = nameFor(op, j.tube)
	p.noteDelivered(r, op, &j)
	p.holdings.hold(op.Holder, id, j, r.sent, in)
}

// nameFor returns the name of the tube of a job that op has taken; mostly the one that is in
// op. A substring of the record would keep the body in memory.
func nameFor(op *storage.Op, name string) string {
	for _, tube := range op.Tubes {
		if tube == name {
			return tube
		}
	}
	return strings.Clone(name)
}

func (p *partition) noJob(op *storage.Op) {
	op.Answer.NotFound = true
	op.Answer.Soon = p.holdings.soon(op.Holder, p.clock.now())
}

// noteDelivered counts that op has got a job. Its waiting time is known if this is its first
// delivery and it was neither kicked nor reserved by its id before it was due.
func (p *partition) noteDelivered(r *reply, op *storage.Op, j *job) {
	if j.tube == "" || r.err != nil {
		return // its record is gone
	}
	f := p.flow.of(j.tube)
	f.Counts[tube.Reserves]++
	if op.Trace && j.record != "" && j.record.HasMetadata() {
		p.answerTraced(r, op, j.record)
	}
	switch {
	case !j.cached.IsZero():
		f.Waits.Observe(r.sent.Sub(j.cached))
	case j.record != "" && op.Kind == storage.Take:
		if c := j.record.Counters(); c[tube.Reserves]+c[tube.Kicks] == 0 {
			f.Waits.Observe(time.Duration(p.redisTime(r)-due(j.record)) * time.Millisecond)
		}
	}
}

// answerTraced adds the stats of a job with a trace to the answer.
func (p *partition) answerTraced(r *reply, op *storage.Op, rec schema.Record) {
	f, err := rec.Metadata()
	if err != nil || f.AllNotes().Trace == "" { // fsck reports the first
		return
	}
	if op.Answer.Result == nil {
		op.Answer.Result = new(storage.Result)
	}
	s := &tube.JobStats{
		ID: op.Answer.ID, State: tube.Reserved, Metadata: f,
		Age: max(time.Duration(p.redisTime(r)-rec.CreatedMs())*time.Millisecond, 0),
	}
	addRecord(s, rec)
	op.Answer.Result.Traced = s
}

// redisTime returns about when Redis has carried out a call, in ms.
func (p *partition) redisTime(r *reply) int64 {
	if r.clock != 0 {
		return r.clock + p.options.skew().Milliseconds()
	}
	return p.clock.redis()
}

// due returns when a job was due that was put with its delay, in ms by the clock of Redis.
func due(r schema.Record) int64 { return r.CreatedMs() + int64(r.Delay())*1000 }

// readNoted reads the counts at the end of a reply.
func (p *partition) readNoted(r *reply) {
	for r.err == nil && r.unread != "" {
		what, n, name := r.text(), r.count(), r.text()
		f := p.flow.of(name)
		switch what {
		case "run":
			f.Runs.Observe(time.Duration(n) * time.Millisecond)
		case "puts":
			f.Puts += n
		case "deletes":
			f.Deletes += n
		case "expired":
			f.Expired += n
		case "parked":
			f.Parked += n
		case "snoozes":
			f.Snoozes += n
		default:
			c, known := counterNamed[what]
			if !known {
				r.err = errReply
				return
			}
			f.Counts[c] += n
		}
	}
}

// counterNamed has the counters of a job by their names.
var counterNamed = func() map[string]tube.Counter {
	all := make(map[string]tube.Counter)
	for c := range tube.NumCounters {
		all[c.String()] = c
	}
	return all
}()
