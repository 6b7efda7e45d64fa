package redis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// How what a call has returned becomes answers of operations, and what the instance
// learns from it. The functions here are the counterparts of those in encode.go and
// beside it; reply.go reads the words.

// decode reads the answer to a call, if there is one to its operations.
func (p *partition) decode(c *call) error {
	r := c.reply
	if r == nil || r.said == voided {
		return nil
	}
	p.flow.mu.Lock()
	err := p.decodeSteps(c, r)
	p.flow.mu.Unlock()
	p.bodies.forget(c.since)
	p.instance.garbled = p.instance.garbled || err != nil
	c.rewind(r)
	return err
}

func (p *partition) decodeSteps(c *call, r *reply) error {
	for i := 0; i < len(c.steps) && r.err == nil; i++ {
		its := &c.steps[i]
		its.decode(p, r, its.ops)
	}
	p.readNoted(r)
	return r.err
}

// rewind has units go on from their first operation that was cut. What was answered
// behind it is not asked for again. Redis does answer, so their time begins anew.
func (c *call) rewind(r *reply) {
	if len(r.cut) == 0 {
		return
	}
	for _, u := range c.units {
		if u.batch != nil && u.rewind(r.cut) {
			u.since = time.Now()
		}
	}
}

// job is what is to be known of a job that was taken.
type job struct {
	body        []byte
	tube        string
	pri         uint32 // not of one from the body cache
	ttr         time.Duration
	hasMetadata bool
	record      record    // not of one from the body cache
	cached      time.Time // of one from the body cache: when it was put; else zero
}

func (r record) job() job {
	return job{
		body: r.body(), tube: r.tube(), pri: r.pri(), ttr: time.Duration(r.ttr()) * time.Second, hasMetadata: r.hasMetadata(), record: r,
	}
}

// nextTaken returns the next job that was taken or looked at; 0 if it has no record any
// more.
func (p *partition) nextTaken(r *reply) (id uint64, its job) {
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
	if r.bare {
		return id, job{}
	}
	if len(r.records) == 0 {
		r.err = errReply
		return 0, job{}
	}
	next := r.records[0]
	r.records = r.records[1:]
	if its, cached := next.(job); cached {
		return id, its
	}
	if next == nil {
		return 0, job{} // it is gone
	}
	text, _ := next.(string)
	if text == "" { // it was gone when the answer was given again
		return 0, job{}
	}
	rec := record(text)
	if !rec.valid() {
		r.err = errReply
		return 0, job{}
	}
	return id, rec.job()
}

// nextID reads the next of the ids of jobs taken in bulk: 'KEY', or for a range
// 'KEY;how many;' and its terms, or the deadline of the lease set that it is. At the
// end there is '!' if the instance has them in its body cache.
func (r *reply) nextID() uint64 {
	if r.more > 0 {
		r.more--
		r.last += r.step
		return r.last
	}
	end := r.prefixed + idLen
	if len(r.taken) < end {
		r.err = errReply
		return 0
	}
	r.last = uint64(r.parse(r.taken[r.prefixed:end]))
	key := r.taken[:end]
	behind, rest, _ := strings.Cut(r.taken[end:], ",")
	r.taken, r.set = rest, nil
	if behind, r.cached = strings.CutSuffix(behind, "!"); behind != "" {
		many, what, _ := strings.Cut(behind[1:], ";")
		r.more = int(r.parse(many)) - 1
		if strings.HasPrefix(what, "g") {
			r.set = &leaseSet{name: key + behind, left: r.more + 1}
		}
	}
	return r.last
}

// numberPuts numbers the jobs of a sequence of puts. It returns whether none was refused.
func (p *partition) numberPuts(r *reply, ops []*storage.Op) (all bool) {
	all = true
	for _, op := range ops {
		if r.puts++; r.refused[r.puts] {
			op.Answer.Err, all = storage.ErrNoSpace, false
			continue
		}
		op.Answer.ID = r.id*uint64(p.of) + uint64(p.number)
		r.id++
		p.flow.of(op.Tube).Puts++
	}
	if r.id > 0 { // else no job at all was put
		p.ids.order.saw(r.id - 1)
	}
	return all
}

// readPuts reads a sequence of puts. The bodies of large jobs that are ready are cached.
func (p *partition) readPuts(r *reply, ops []*storage.Op) {
	p.numberPuts(r, ops)
	for i, op := range ops {
		if op.Answer.Err == nil && len(op.Body) >= p.options.largeFrom && op.Delay == 0 && p.bodies.room() {
			p.bodies.keep(ops[i:i+1], r.sent)
		}
	}
}

// readOwnRange is readPuts for a range whose bodies are to be cached.
func (p *partition) readOwnRange(r *reply, ops []*storage.Op) {
	if p.numberPuts(r, ops) {
		p.bodies.keep(ops, r.sent)
	}
}

// readTakes reads a sequence of takes, of which the first have got a job. The others
// have none, or are cut.
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
	case done:
		id, job := p.nextTaken(r)
		p.take(r, op, id, job, r.set)
	case refused:
		p.noJob(op)
	}
}

func (p *partition) take(r *reply, op *storage.Op, id uint64, its job, in *leaseSet) {
	if r.err != nil {
		return
	}
	if id == 0 {
		r.cutOff([]*storage.Op{op})
		return
	}
	op.Answer.ID, op.Answer.Body = id, its.body
	its.tube = nameFor(op, its.tube)
	p.noteDelivered(r, op, &its)
	p.holdings.hold(op.Holder, id, its, r.sent, in)
}

// nameFor returns the name of the tube of a job that op has taken; mostly one
// that is in op. A part of the record would keep the body in memory.
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

// readGone reads a sequence of deletes of jobs that their connections held.
func (p *partition) readGone(r *reply, ops []*storage.Op) {
	each := ""
	if !r.found() {
		each = r.text()
	}
	for i, op := range ops {
		op.Answer.NotFound = each != "" && each[min(i, len(each)-1)] == '0'
		if held := p.holdings.of(op.ID); held != nil && !op.Answer.NotFound {
			p.flow.of(p.holdings.tubeOf(held)).Deletes++
			p.noteRun(r, held)
		}
		p.holdings.drop(op.ID)
	}
}

// readMove reads the answer of a move, and keeps in step what the holder has.
func (p *partition) readMove(r *reply, ops []*storage.Op) {
	op := ops[0]
	switch r.verdict(op) {
	case refused:
		op.Answer.NotFound = true
		if finishes(op.Move) && p.holdings.has(op.Holder, op.ID, 0) != nil {
			p.holdings.drop(op.ID) // somebody has removed it by its key
		}
		return
	case cutOff:
		return
	}
	switch reserved := r.found(); {
	case op.Move == tube.ReserveJob:
		id, job := p.nextTaken(r)
		p.take(r, op, id, job, nil)
	case reserved:
		p.holdings.touch(op.ID, r.sent)
	default:
		if held := p.holdings.has(op.Holder, op.ID, 0); held != nil && op.Move == tube.Delete {
			p.noteRun(r, held)
		}
		p.holdings.drop(op.ID)
	}
}

// readPeek reads a job that was looked at. Nobody holds it, so it may have been deleted
// before its record was read: then it is asked for again.
func (p *partition) readPeek(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	v := r.verdict(ops[0])
	if a.NotFound = v == refused; v != done {
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
	}
}

// jobStats reads what the script says of a job; nil if that is not as expected.
func (r *reply) jobStats(id uint64) *tube.JobStats {
	s := &tube.JobStats{ID: id, State: stateOf(r.text()), Age: r.ms(), TimeLeft: r.ms()}
	rec := r.record()
	if r.err != nil {
		return nil
	}
	s.Tube, s.Pri, s.Delay, s.TTR, s.Created, s.Counters = rec.tube(), rec.pri(), rec.delay(), rec.ttr(), rec.created(), rec.counters()
	if s.State == tube.Reserved {
		s.Counters[tube.Reserves]++ // the record has it when it is over
	}
	if rec.hasMetadata() {
		r.addMetadata(s)
	}
	return s
}

// readTubeStats reads what Redis knows of tubes; here is how many connections of this
// instance use and watch each of them, which Redis does not count.
func readTubeStats(here []attending) func(*partition, *reply, []*storage.Op) {
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

func (p *partition) readTube(r *reply, name string, here attending) *tube.TubeStats {
	s := &tube.TubeStats{Name: name, Urgent: r.count(), Ready: r.count(), Delayed: r.count(), Buried: r.count(), Total: r.count(), Deletes: r.count(), Pauses: r.count()}
	s.Pause, s.PauseLeft = uint32(r.int64()), r.ms()
	s.Using, s.Watching, s.Waiting = r.count()+uint64(here.using), r.count()+uint64(here.watching), r.count()
	if s.OldestReady, s.HasPolicy = max(r.ms(), 0), r.found(); s.HasPolicy {
		s.Waits, s.Runs = p.flow.timesOf(name, r)
	}
	s.Reserved = s.Total - s.Deletes - s.Ready - s.Delayed - s.Buried
	return s
}

func (p *partition) readStats(r *reply, ops []*storage.Op) {
	t := tube.Totals{Urgent: r.count(), Ready: r.count(), Reserved: r.count(), Delayed: r.count(), Buried: r.count(), Jobs: r.count()}
	t.Timeouts, t.Tubes = r.count(), r.count()
	ops[0].Answer.Stats = &storage.Figures{Totals: t, Instances: r.count()}
}

func (p *partition) readKick(r *reply, ops []*storage.Op) { ops[0].Answer.Count, _ = r.int(), r.text() }

// readKickPart reads the answer to a part of a kick that takes several calls: one of part jobs.
func readKickPart(u *unit, part int) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		n, state := r.int(), r.text()
		u.partial.add(ops[0], n)
		if n == part && u.partial.jobs < int(ops[0].MaxJobs) {
			u.kick.from = state
			u.again()
			return
		}
		ops[0].Answer.Count = u.partial.jobs
		u.partial, u.kick = partial{}, kickProgress{}
	}
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

// firsts returns names without those that come twice.
func firsts(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		was := seen[name]
		seen[name] = true
		return was
	})
}

// readGivenBack reads that reservations were given back.
func (p *partition) readGivenBack(all []reservation) func(*reply) {
	return func(r *reply) {
		r.found()
		for _, reserved := range all {
			p.holdings.drop(reserved.id)
		}
	}
}

// afterGiveBack calls more if a connection still holds something.
func afterGiveBack(h tube.Holder, more func()) func(*partition, *reply, []*storage.Op) {
	return func(p *partition, _ *reply, _ []*storage.Op) {
		if p.holdings.countOf(h) > 0 {
			more()
		}
	}
}

// readHeartbeat has what is left to do about instances that were declared dead done
// with further calls.
func (p *partition) readHeartbeat(r *reply) {
	for range r.int64() {
		inst := r.text()
		p.reclaimLater(inst, r.int64())
	}
	p.heartbeat.saw(strings.Fields(strings.Clone(r.text())), p.instance.name(), r.sent)
}

// readIDs reads how far ids are.
func (p *partition) readIDs(r *reply) { p.ids.saw(uint64(r.int64()), r.sent) }

// reclaimed is what the script says of an instance about which nothing is left to
// do.
const reclaimed = -2

// readReclaimed reads how far the script has come with an instance that was declared
// dead.
func (p *partition) readReclaimed(inst string) func(*reply) {
	return func(r *reply) {
		if next := r.int64(); next != reclaimed && r.err == nil {
			p.reclaimLater(inst, next)
		}
	}
}

// readTick reads how late the latest thing was that a tick has done, whether
// another instance has to do something that is due, which jobs have expired, whether dead
// letters wait to be sent, and which reservations were flushed.
func (p *partition) readTick(r *reply) {
	p.tardiness.note(r.ms())
	p.upkeep.elsewhere.Store(r.found())
	for range r.int64() {
		p.holdings.drop(r.key())
	}
	p.upkeep.nothingDue()
	if r.int64() > 0 {
		p.letters.begin(p)
	}
	p.dropFlushed(r)
}

// read reads what is the best ready job of a place.
func (h *head) read(r *reply) {
	if h.found = r.found(); h.found {
		h.pri, h.id = uint32(r.int64()), r.key()
	}
}
