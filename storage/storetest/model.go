package storetest

import (
	"maps"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Model is a second implementation of the rules, written to be obviously right rather than fast:
// a list of jobs that every operation goes through. It shares nothing with tube.Machine but
// names. Its clock only moves when Tick is called.
//
// Begin begins a batch. Things that are due at the same time happen in the order of the batches,
// and within a batch in the order of ids.
type Model struct {
	now        time.Duration // since the model began
	clock      tube.Instant  // the time of day that the next put with a time of day refers to
	jobs       []*modelJob
	lastID     uint64
	sequence   int // grows with every burial
	step       int // grows with every batch and every Tick
	timeouts   uint64
	total      uint64
	tubes      []*modelTube
	policies   map[string]*tube.Policy
	tombstones map[modelKey]modelTombstone
	ended      []*modelEnded
	pending    []*modelJob           // buried jobs that go to their dead-letter tubes now
	listed     position              // of the last job that was listed
	takenBack  map[modelHolding]bool // of connections that have not got the jobs again

	groups      map[modelLane]*modelGroup
	turns       map[string]int // the last turn that was given, by tube
	started     *modelLane     // in which a job starts in this step
	moved       *modelJob      // that moves within its lane in this step
	listedGroup string         // the last group that was listed

	listedRecords [tube.NumRecordKinds]string // the last record of each kind that was listed
	schedules     map[string]modelSchedule
	runsByItself  bool // the clock of the store does, so claims can end at any time

	batches  map[string]*modelBatch
	parts    []*tube.JobBatch // the records of a batch that is settled next, as the history has read them
	knowsDue bool             // it is known when batches are due: the store has one part, and dead letters take no time

	// hint is the id that the store has answered to the next operation. It decides where the order
	// is undefined.
	hint        uint64
	hintDue     []*tube.Schedule // likewise the records
	hintBatches []*tube.JobBatch

	// With learns the ids of new jobs are above provisional until they are learned.
	learns  bool
	created uint64      // jobs that were created with such an id so far
	sent    []*modelJob // dead letters that were created since the ids were last learned
	left    []uint64    // jobs that a replay has sent back since then
}

type modelJob struct {
	id              uint64
	tube            *modelTube
	state           tube.State
	pri, delay, ttr uint32
	holder          tube.Holder
	due             time.Duration // of delayed and reserved jobs
	order           int           // of buried jobs: the number of the burial; of delayed and reserved jobs: the step in which due was set
	expires         time.Duration // when its time is over; 0: never
	expiresOrder    int           // the step in which that was decided
	waitsSince      time.Duration // an after-job: when it was put; its time has not begun
	counters        tube.Counters
	body            string
	checkpoint      string
	metadata        tube.Metadata // Lease is 1 if the job was ever leased, not the token
	lease           uint64        // its last token, as reported by the store; 0: not yet reported
	leases          uint64        // the largest token that it had
	origKey         string        // of a dead letter: the key of its original job
	held            bool          // it waits for a batch
	movedAlone      bool          // by a MoveJob: it can get its id late
	heldAtEnd       bool          // it was reserved when the store ended, and has stayed in its queue since
	head            bool          // it started last in its group, while that was strict, and has not left it
}

// modelHolding is a job that a connection has or had.
type modelHolding struct {
	holder tube.Holder
	job    uint64
}

type modelTube struct {
	name                   string
	using, watching        int
	total, deletes, pauses uint64
	expired                uint64
	pause                  uint32
	until                  time.Duration // end of the pause
	paused                 bool
}

// NewModel returns a Model without jobs.
func NewModel() *Model {
	m := &Model{takenBack: make(map[modelHolding]bool), policies: make(map[string]*tube.Policy), tombstones: make(map[modelKey]modelTombstone), groups: make(map[modelLane]*modelGroup), turns: make(map[string]int), schedules: make(map[string]modelSchedule), batches: make(map[string]*modelBatch)}
	m.open(tube.Default)
	return m
}

func (m *Model) find(name string) *modelTube {
	for _, t := range m.tubes {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (m *Model) open(name string) *modelTube {
	if t := m.find(name); t != nil {
		return t
	}
	m.tubes = append(m.tubes, &modelTube{name: name})
	return m.tubes[len(m.tubes)-1]
}

// drop removes the tubes that nothing keeps alive.
func (m *Model) drop() {
	for i := 0; i < len(m.tubes); i++ {
		t := m.tubes[i]
		used := t.name == tube.Default || t.using+t.watching > 0
		for _, j := range m.jobs {
			used = used || j.tube == t
		}
		if !used {
			m.tubes[i] = m.tubes[len(m.tubes)-1]
			m.tubes = m.tubes[:len(m.tubes)-1]
			i--
		}
	}
}

func (m *Model) job(id uint64) *modelJob {
	for _, j := range m.jobs {
		if j.id == id {
			return j
		}
	}
	return nil
}

// first returns the first job, in the order of less, that is in a state and accepted; nil if
// there is none.
func (m *Model) first(s tube.State, accept func(*modelJob) bool) *modelJob {
	var best *modelJob
	for _, j := range m.jobs {
		if j.state == s && accept(j) && (best == nil || less(j, best)) {
			best = j
		}
	}
	return best
}

func less(a, b *modelJob) bool { return a.position().before(b.position()) }

// Begin begins a batch of operations.
func (m *Model) Begin() { m.step++ }

// Do carries out one operation.
func (m *Model) Do(op *storage.Op) {
	op.Answer = storage.Answer{}
	a := &op.Answer
	in := func(j *modelJob) bool { return j.tube.name == op.Tube }
	ready, counts := m.readyLanes(), m.batchCounts()
	switch op.Kind {
	case storage.Put:
		m.putTagged(op)
	case storage.Take:
		m.take(op)
	case storage.Move:
		m.move(op)
	case storage.Kick:
		a.Count = m.kick(op, in)
	case storage.SetPriority:
		j := m.job(op.ID)
		if a.NotFound = j == nil || j.state == tube.Reserved; !a.NotFound {
			j.pri, j.heldAtEnd, m.moved = op.Pri, false, j
		}
	case storage.Reschedule:
		m.reschedule(op)
	case storage.Peek, storage.PeekHead, storage.GetCheckpoint:
		m.peek(op, in)
	case storage.Pause:
		m.pause(op)
	case storage.Ref:
		m.ref(op)
	case storage.ReleaseAll:
		m.giveBack(func(j *modelJob) bool { return j.holder == op.Holder })
		maps.DeleteFunc(m.takenBack, func(h modelHolding, _ bool) bool { return h.holder == op.Holder })
	case storage.SetPolicy, storage.GetPolicy, storage.Policies:
		m.policy(op)
	case storage.Flush, storage.MoveJobs, storage.ListJobs:
		m.many(op, in)
	case storage.PeekKey, storage.DeleteKey, storage.FindKey:
		m.byKey(op)
	case storage.MoveJob:
		m.moveOne(op)
	case storage.Replay:
		m.replay(op)
	case storage.SetGroup, storage.GetGroup, storage.GroupStats, storage.ListGroups, storage.PauseGroup:
		m.aboutGroups(op)
	case storage.GetRecord, storage.ListRecords, storage.DueRecords:
		m.aboutRecords(op)
	case storage.SetSchedule, storage.PutScheduled, storage.DeleteSchedule:
		m.aboutSchedules(op)
	case storage.SealBatch, storage.CancelBatch, storage.SettleBatch:
		m.aboutBatches(op)
	case storage.WaitEnded, storage.ListEnded:
		m.aboutEnds(op)
	default:
		m.report(op, in)
	}
	m.dueSince(counts)
	m.drop()
	m.giveTurns(ready)
	m.seeGroups(nil)
}

// peek carries out an operation that reads a job, or its checkpoint.
func (m *Model) peek(op *storage.Op, in func(*modelJob) bool) {
	a, j := &op.Answer, m.job(op.ID)
	switch {
	case op.Kind == storage.PeekHead:
		answer(a, m.peekHead(op, in))
	case op.Kind == storage.Peek:
		answer(a, j)
	case j == nil || j.checkpoint == "":
		a.NotFound = true
	default:
		a.Body = []byte(j.checkpoint)
	}
}

// peekHead returns the first job of a tube in a state: of the ready ones, the one that a take would
// get, were the tube not paused.
func (m *Model) peekHead(op *storage.Op, in func(*modelJob) bool) *modelJob {
	if j := m.choose(m.firstOfLanes(op.Tube)); j != nil && op.State == tube.Ready {
		return j
	}
	return m.first(op.State, in)
}

func answer(a *storage.Answer, j *modelJob) {
	if j == nil {
		a.NotFound = true
		return
	}
	a.ID, a.Body = j.id, []byte(j.body)
}

// put creates a job, and returns it.
func (m *Model) put(op *storage.Op) *modelJob {
	m.lastID++
	m.total++
	j := &modelJob{id: m.newID(), tube: m.open(op.Tube), pri: op.Pri, delay: op.Delay, ttr: op.TTR, body: string(op.Body)}
	if j.ttr == 0 {
		j.ttr = 1
	}
	j.tube.total++
	m.jobs = append(m.jobs, j)
	m.wait(j, time.Duration(j.delay)*time.Second)
	op.Answer.ID = j.id
	return j
}

// provisional is below all ids that are not known yet, and above all ids of stores.
const provisional = 1 << 60

func (m *Model) newID() uint64 {
	if !m.learns {
		return m.lastID
	}
	m.created++
	return provisional + m.created
}

// wait makes a job delayed, or ready if d is zero.
func (m *Model) wait(j *modelJob, d time.Duration) {
	if d == 0 {
		j.state = tube.Ready
		return
	}
	j.state, j.due, j.order = tube.Delayed, m.now+d, m.step
}

// bury makes a job the last one that was buried.
func (m *Model) bury(j *modelJob) {
	m.sequence++
	j.state, j.order, j.head = tube.Buried, m.sequence, false
}

func (m *Model) reserve(j *modelJob, h tube.Holder) {
	m.leaveAfter(j)
	delete(m.takenBack, modelHolding{h, j.id})
	j.metadata.Progress = ""
	j.state, j.holder, j.heldAtEnd = tube.Reserved, h, false
	m.touch(j)
	j.counters[tube.Reserves]++
	j.metadata.Parked = tube.NotParked
	if h == tube.LeaseHolder {
		j.metadata.Lease, j.lease = 1, 0
	}
}

func (j *modelJob) saveCheckpoint(data string) {
	j.checkpoint, j.metadata.Checkpoint.Size = data, uint32(len(data))
}

// reported takes what the holder of a job reports.
func (j *modelJob) reported(op *storage.Op) {
	args := op.Args
	if args == nil {
		args = new(storage.Args)
	}
	if op.Move == tube.SaveCheckpoint {
		j.saveCheckpoint(string(args.Data))
	} else if args.Progress != nil {
		j.metadata.Progress = *args.Progress
	}
}

func (m *Model) touch(j *modelJob) {
	j.due, j.order = m.now+time.Duration(j.ttr)*time.Second, m.step
}

func (m *Model) take(op *storage.Op) {
	var j *modelJob
	for _, name := range op.Tubes {
		next := m.choose(m.offers(name))
		if next != nil && (j == nil || !op.First && less(next, j)) {
			j = next
		}
	}
	if op.MaxBytes > 0 && j != nil && len(j.body) > int(op.MaxBytes) {
		j = nil
	}
	if answer(&op.Answer, j); j != nil {
		m.start(j)
		m.reserve(j, op.Holder)
		if op.Holder == tube.LeaseHolder {
			op.Answer.Result = &storage.Result{Lease: 1}
		}
		return
	}
	op.Answer.Soon = storage.Forever
	if op.Holder == tube.LeaseHolder {
		return
	}
	if j := m.first(tube.Reserved, func(j *modelJob) bool { return j.holder == op.Holder }); j != nil {
		op.Answer.Soon = j.due - time.Second - m.now
	}
}

func (m *Model) move(op *storage.Op) {
	j := m.job(op.ID)
	op.Answer.NotFound = true
	if j == nil {
		return
	}
	mine := j.state == tube.Reserved && j.holder == op.Holder
	free := j.state != tube.Reserved
	if op.Holder == tube.LeaseHolder && op.Move != tube.Expire {
		if !mine || op.Args.Lease != j.lease || j.lease == 0 {
			return
		}
	}
	switch {
	case op.Move == tube.Delete && mine:
		m.done(j, tube.Done, "")
	case op.Move == tube.Delete && free && !m.takenBack[modelHolding{op.Holder, j.id}]:
		m.done(j, tube.Deleted, "")
	case op.Move == tube.Finish && mine:
		m.finish(j, op)
	case op.Move == tube.ReserveJob && free && m.mayStart(j):
		m.start(j)
		m.reserve(j, op.Holder)
	case op.Move == tube.Seize && free:
		m.reserve(j, op.Holder)
	case op.Move == tube.KickJob && (j.state == tube.Delayed || j.state == tube.Buried):
		m.kickOne(j, op)
	case op.Move == tube.Snooze && mine:
		j.pri, j.delay = op.Pri, op.Delay
		j.counters[tube.Releases]++
		j.metadata.FailuresBefore++
		j.metadata.DeliveriesBefore++
		if m.wait(j, time.Duration(j.delay)*time.Second); m.isOver(j) {
			m.expire(j)
			m.sendPending()
		}
	case op.Move == tube.Release && mine:
		j.pri, j.delay = op.Pri, op.Delay
		m.fail(j, op, tube.FailedByRelease)
		j.counters[tube.Releases]++
		m.endDelivery(j, true, time.Duration(j.delay)*time.Second)
		m.sendPending()
	case op.Move == tube.Expire && !free:
		m.takeBack(j, op)
	case op.Move == tube.Bury && mine:
		j.pri = op.Pri
		m.fail(j, op, tube.FailedByBury)
		m.bury(j)
		j.counters[tube.Buries]++
	case (op.Move == tube.Touch || op.Move == tube.SaveCheckpoint) && mine:
		m.touch(j)
		j.reported(op)
	default:
		return
	}
	op.Answer.NotFound = false
	if op.Move.Brings() {
		answer(&op.Answer, j)
	}
}

func (m *Model) reschedule(op *storage.Op) {
	j := m.job(op.ID)
	op.Answer.NotFound = j == nil || j.held || j.state != tube.Ready && j.state != tube.Delayed
	if op.Answer.NotFound {
		return
	}
	j.delay, j.heldAtEnd, m.moved = inSeconds(op.In), false, j
	m.wait(j, op.In)
}

// inSeconds rounds up.
func inSeconds(d time.Duration) uint32 {
	if d%time.Second > 0 {
		d += time.Second
	}
	return uint32(d / time.Second)
}

func (m *Model) kick(op *storage.Op, in func(*modelJob) bool) int {
	from := tube.Buried
	if m.first(from, in) == nil {
		from = tube.Delayed
	}
	n := 0
	for ; n < int(op.MaxJobs); n++ {
		j := m.first(from, func(j *modelJob) bool { return in(j) && !j.held })
		if j == nil {
			break
		}
		m.kickOne(j, op)
	}
	return n
}

func (m *Model) pause(op *storage.Op) {
	t := m.find(op.Tube)
	if op.Answer.NotFound = t == nil; t == nil {
		return
	}
	t.paused, t.pause, t.until = op.Delay > 0, op.Delay, m.now+time.Duration(op.Delay)*time.Second
	t.pauses++
}

func (m *Model) ref(op *storage.Op) {
	for _, name := range op.Tubes {
		t := m.find(name)
		if t == nil {
			if op.Delta < 0 {
				continue
			}
			t = m.open(name)
		}
		if op.Role == tube.Using {
			t.using += op.Delta
		} else {
			t.watching += op.Delta
		}
	}
}
