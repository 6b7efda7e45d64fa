package redis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// How a reply becomes answers of operations, and what the instance learns from it. The
// functions are the counterparts of those in encode.go and its neighbours; reply.go reads the
// fields.

// decode reads the reply to a call, if it has answers of operations.
func (p *partition) decode(c *call) error {
	r := c.reply
	if r == nil || r.unread == lua.Voided {
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
		s := &c.steps[i]
		s.decode(p, r, s.ops)
	}
	p.readNoted(r)
	return r.err
}

// rewind makes units continue from their first operation that was cut. What was answered after
// that is not requested again. Redis does answer, so the time limit of these units starts
// again.
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

// job is what is known of a job that was taken.
type job struct {
	body        []byte
	tube        string
	pri         uint32 // unset for a job from the body cache
	ttr         time.Duration
	hasMetadata bool
	record      schema.Record // unset for a job from the body cache
	cached      time.Time     // when a job from the body cache was put; else zero
}

func jobOf(r schema.Record) job {
	return job{
		body: r.Body(), tube: r.Tube(), pri: r.Pri(), ttr: time.Duration(r.TTR()) * time.Second, hasMetadata: r.HasMetadata(), record: r,
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

// nextID reads the next id of the jobs taken in bulk: 'KEY', or for a range 'KEY;COUNT;' and
// its terms, or for a lease set its deadline. A '!' at the end means that the bodies are in the
// body cache.
func (r *reply) nextID() uint64 {
	if r.more > 0 {
		r.more--
		r.last += r.step
		return r.last
	}
	end := r.prefixed + schema.IDLen
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

// numberPuts assigns ids to the jobs of a sequence of puts. It returns whether none was
// refused.
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
	if r.id > 0 { // else no job was put
		p.ids.order.saw(r.id - 1)
	}
	return all
}

// readPuts reads a sequence of puts. The bodies of large ready jobs are cached.
func (p *partition) readPuts(r *reply, ops []*storage.Op) {
	p.numberPuts(r, ops)
	for i, op := range ops {
		if op.Answer.Err == nil && len(op.Body) >= p.options.largeFrom && op.Delay == 0 && p.bodies.room() {
			p.bodies.keep(ops[i:i+1], r.sent)
		}
	}
}

// readOwnRange is readPuts for a range whose bodies are cached.
func (p *partition) readOwnRange(r *reply, ops []*storage.Op) {
	if p.numberPuts(r, ops) {
		p.bodies.keep(ops, r.sent)
	}
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

// readDeletesHeld reads a sequence of deletes of jobs that their connections held.
func (p *partition) readDeletesHeld(r *reply, ops []*storage.Op) {
	each := ""
	if !r.found() {
		each = r.text()
	}
	for i, op := range ops {
		op.Answer.NotFound = each != "" && each[min(i, len(each)-1)] == '0'
		if held := p.holdings.get(op.ID); held != nil && !op.Answer.NotFound {
			p.flow.of(p.holdings.tubeOf(held)).Deletes++
			p.noteRun(r, held)
		}
		p.holdings.drop(op.ID)
	}
}

// readMove reads the answer of a move, and updates the holdings.
func (p *partition) readMove(r *reply, ops []*storage.Op) {
	op := ops[0]
	switch r.verdict(op) {
	case lua.Refused:
		op.Answer.NotFound = true
		if finishes(op.Move) && p.holdings.heldBy(op.Holder, op.ID, 0) != nil {
			p.holdings.drop(op.ID) // it was removed by its key
		}
		return
	case lua.CutOff:
		return
	}
	switch reserved := r.found(); {
	case op.Move == tube.ReserveJob:
		id, job := p.nextTaken(r)
		p.take(r, op, id, job, nil)
	case reserved:
		p.holdings.touch(op.ID, r.sent)
	default:
		if held := p.holdings.heldBy(op.Holder, op.ID, 0); held != nil && op.Move == tube.Delete {
			p.noteRun(r, held)
		}
		p.holdings.drop(op.ID)
	}
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
	}
}

// jobStats reads the answer of job-stats; nil if it is malformed.
func (r *reply) jobStats(id uint64) *tube.JobStats {
	s := &tube.JobStats{ID: id, State: schema.StateOf(r.text()), Age: r.ms(), TimeLeft: r.ms()}
	rec := r.record()
	if r.err != nil {
		return nil
	}
	s.Tube, s.Pri, s.Delay, s.TTR, s.Created, s.Counters = rec.Tube(), rec.Pri(), rec.Delay(), rec.TTR(), rec.Created(), rec.Counters()
	if s.State == tube.Reserved {
		s.Counters[tube.Reserves]++ // the record counts it when the reservation ends
	}
	if rec.HasMetadata() {
		r.addMetadata(s)
	}
	return s
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

// readKickPart reads the answer to a part of a kick that takes several calls. The part had this
// many jobs at most.
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

// firsts returns names without duplicates.
func firsts(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		was := seen[name]
		seen[name] = true
		return was
	})
}

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

// reclaimed is what the script answers when nothing is left to do about an instance.
const reclaimed = -2

// readReclaimed reads the progress with an instance that was declared dead.
func (p *partition) readReclaimed(inst string) func(*reply) {
	return func(r *reply) {
		if next := r.int64(); next != reclaimed && r.err == nil {
			p.reclaimLater(inst, next)
		}
	}
}

// readTick reads how late the latest thing was that a tick has done, whether another instance
// has something due, which jobs have expired, how many dead letters are pending, and which
// reservations were flushed.
func (p *partition) readTick(r *reply) {
	p.timerLag.record(r.ms())
	p.background.elsewhere.Store(r.found())
	for range r.int64() {
		p.holdings.drop(r.key())
	}
	p.background.nothingDue()
	if r.int64() > 0 {
		p.deadLetters.begin(p)
	}
	p.dropFlushed(r)
}

// read reads the best ready job of a group of tubes.
func (h *head) read(r *reply) {
	if h.found = r.found(); h.found {
		h.pri, h.id = uint32(r.int64()), r.key()
	}
}
