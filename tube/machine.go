package tube

import "time"

// Machine is all jobs, tubes and reservations of one server, in memory. It follows
// the table of arrows. It is not safe for concurrent use, and it reads no clock:
// methods that depend on time take now, which must not go backwards.
//
// It is built in floors. Each is a struct that contains the one below it, so it can call what is on the floors
// below, and nothing above: Machine (commands), times, queues, members, groups, jobs, base. Receivers of all floors are called m.
type Machine struct {
	times
	schedules
	wereReserved []uint64 // restored jobs that were reserved, for EndRestore
}

// times is the floor of what becomes of jobs whose delivery has failed, or whose time is over.
type times struct {
	queues
	pendingDead idQueue // pending dead letters, see NextPending
}

// queues is the floor on which jobs change their state: the only one that moves them between queues.
type queues struct {
	members
	holdings map[Holder]*holding
	recent   *holding // the one that was used last; nil if it was removed
	burials  int64    // number of the last burial
	watched  watched  // the tubes of the last Take from many
}

// members is the floor of job batches: which jobs belong to them, and which wait for them.
type members struct {
	groups
	batches jobBatches
}

// groups is the floor of groups and limits: which job may start, and which is next.
type groups struct {
	jobs
	takeable      []*Tube              // tubes that are not paused and have a ready job
	woken         []*Tube              // tubes in which a job became ready, see WakeUps
	throttles     map[string]*throttle // of groups and tubes, by keyName
	throttleOrder []*throttle          // all, in no order
	listed        listedGroups
	unchecked     unchecked
	spareLanes    []*lane
	deferring     bool  // see deferLanes
	deferred      *lane // likewise
}

// jobs is the floor of what there is: jobs, tubes, keys and policies.
type jobs struct {
	base
	slab      slab
	byID      index
	tubes     map[string]*Tube
	order     []*Tube  // in the order of list-tubes
	handles   []handle // by Job.tube
	spare     []uint32 // free indexes of handles
	metadata  map[ref]metadata
	lastRules Rules // of the last job that had some, see share
	keys      keys
	expiries  expiries
	policies  policies
	reported  Metadata // of the job that is being reported to the journal
	lastID    uint64
	totals    Totals
	flows     *Flows
}

// Totals are the counts over all tubes, as stats prints them.
type Totals struct {
	Urgent, Ready, Reserved, Delayed, Buried uint64 // jobs now
	Jobs                                     uint64 // jobs ever put
	Timeouts                                 uint64 // reservations that ran out
	Tubes                                    uint64
}

// NewMachine returns a Machine without jobs, in which only the tube "default"
// exists. The first job gets the id 1.
func NewMachine() *Machine {
	m := new(Machine)
	m.alarms = newAlarms()
	m.byID, m.tubes, m.metadata = newIndex(), make(map[string]*Tube), make(map[ref]metadata)
	m.keys, m.expiries, m.policies.own = newKeys(&m.base), newExpiries(&m.base), make(map[string]*Policy)
	m.flows = NewFlows(RoomFor(DefaultNamed))
	m.throttles, m.holdings = make(map[string]*throttle), make(map[Holder]*holding)
	m.batches.dues, m.schedules = newDues[*batched](), newSchedules(&m.base)
	m.keys.alarm.owner, m.expiries.alarm = &m.keys, alarm{owner: &m.expiries, last: true}
	m.batches.dues.alarm.owner, m.schedules.dues.alarm.owner = &m.batches, &m.schedules
	m.unchecked.alarm.owner, m.listed.alarm.owner = &m.unchecked, &m.listed
	m.open(Default)
	return m
}

// NewJob is what a put asks for. Delay and TTR are in seconds.
type NewJob struct {
	Tube            string
	Pri, Delay, TTR uint32
	Body            []byte // kept, not copied
	Buffer          Buffer // of Body, or nil; the Machine takes over one reference
}

// Buffer is the reference-counted memory of a body. The Machine has one reference while
// it has the body in memory. Both methods may be called with a lock held.
type Buffer interface {
	Retain()  // adds a reference
	Release() // drops a reference
}

// Put creates a job and returns it. It creates the tube if there is none of that
// name.
func (m *Machine) Put(now Instant, p NewJob) *Job {
	j := m.newJob(now, p)
	if m.policies.any() {
		if at := expiresAt(now, m.policyOf(p.Tube), NoLifetime, time.Duration(p.Delay)*time.Second); at != 0 {
			m.setMetadata(j, Metadata{Expires: at})
		}
	}
	m.enter(now, j, Delayed, nil)
	m.journalPut(j, p)
	return j
}

// newJob creates a job that is in no queue yet.
func (m *queues) newJob(now Instant, p NewJob) *Job {
	t := m.open(p.Tube)
	m.lastID++
	j := m.slab.alloc()
	j.ID, j.tube, j.created = m.lastID, t.handle, now
	j.pri, j.delay, j.ttr, j.size = p.Pri, p.Delay, max(p.TTR, MinTTR), uint32(len(p.Body))
	if len(p.Body) > 0 {
		m.slab.keep(j, p.Body, p.Buffer)
	}
	m.byID.set(j.ID, j.self)
	t.jobs++
	t.bytes += uint64(j.size)
	t.total++
	t.flow.Puts++
	m.totals.Jobs++
	return j
}

// journalPut reports a new job to the journal.
func (m *jobs) journalPut(j *Job, p NewJob) {
	if m.journal != nil {
		m.journal.Put(m.record(j, &m.reported), p.Body, p.Buffer)
	}
}

// Terms come with a command that moves a job. Arrow.Sets says whether the job takes the priority
// and the delay, which is in seconds. Reason, unless it is empty, is why the delivery has failed.
type Terms struct {
	Pri, Delay uint32
	Reason     string
}

// goneJob is what Move returns for a job that was deleted, or sent to its dead-letter
// tube.
var goneJob Job

// Move moves job id as the table says, on behalf of h. It returns the job as it is
// afterwards. It returns nil, which is NOT_FOUND, if there is no such job, if the
// table has no row for its state, or if only the holder can make the move and h is
// not the holder. For Reserve, which chooses a job by itself, use Take.
func (m *Machine) Move(now Instant, move Move, h Holder, id uint64, terms Terms) *Job {
	j := m.Find(id)
	if j == nil {
		return nil
	}
	arrow := arrowAt[move][j.state]
	if arrow == nil || arrow.Held && j.holder != h || move == ReserveJob && !m.mayReserve(now, j) {
		return nil
	}
	switch arrow.Sets {
	case SetsPri:
		j.pri = terms.Pri
	case SetsPriAndDelay:
		j.pri, j.delay = terms.Pri, terms.Delay
	}
	t := m.tubeOf(j)
	if arrow.To == Gone {
		t.deletes++
	}
	if move == Withdraw {
		defer m.dropUnusedBatches(now, m.unput(j))
	}
	if terms.Reason != "" {
		m.noteReason(now, j, terms.Reason)
	}
	if t.lanes != nil {
		m.deferLanes()
		defer m.updateDeferred(t)
	}
	m.moveAlong(now, j, arrow, h)
	if j.ID != id {
		return &goneJob
	}
	if move == ReserveJob {
		m.started(now, j)
	}
	return j
}

// moveAlong moves j along the arrow, on behalf of h, and reports it to the journal.
func (m *Machine) moveAlong(now Instant, j *Job, arrow *Arrow, h Holder) {
	m.countArrow(now, j, arrow)
	if arrow.Move == Touch {
		m.touch(now, j)
		return
	}
	inBatch := j.batch != 0
	if inBatch && arrow.To != Gone {
		m.clearAfter(now, j)
	}
	if arrow.Counts != NoCounter {
		j.counters[arrow.Counts]++
	}
	var to *holding
	if arrow.To == Reserved {
		to = m.hold(h)
	}
	m.dequeue(j)
	id, size := j.ID, j.size
	changed := arrow.durable()
	hasRules := m.hasRules(j)
	if arrow.Move == Snooze {
		m.discount(j)
	}
	if hasRules {
		changed = m.enterByRules(now, j, arrow, to) || changed
	} else {
		m.enter(now, j, arrow.To, to)
	}
	if inBatch {
		m.recount(now, j) // nothing if j is gone
	}
	switch {
	case m.journal == nil:
	case j.ID != id:
		m.journal.Deleted(id, size)
	case changed:
		m.journal.Changed(m.record(j, &m.reported))
	}
	if hasRules {
		m.sendIfPending(now, j)
	}
	if inBatch {
		m.journalBatches()
	}
}

// enterByRules is enter for a job that has metadata, or is in a tube with a policy. It returns
// whether more has changed than the arrow says.
func (m *Machine) enterByRules(now Instant, j *Job, arrow *Arrow, h *holding) (more bool) {
	if arrow.From == Buried {
		m.unpark(now, j, arrow.Move)
	}
	if arrow.Move == Snooze && m.isOver(now, j) {
		m.lapse(now, j)
		return true
	}
	if arrow.Ends == NoOutcome {
		m.enter(now, j, arrow.To, h)
		return h != nil && h.holder == LeaseHolder
	}
	if arrow.Move == Expire && m.notesTTR(j) {
		m.noteReason(now, j, ReasonTTR)
	}
	asked := uint32(0)
	if arrow.Sets == SetsPriAndDelay {
		asked = j.delay
	}
	m.requeueOrPark(now, j, arrow.Ends, asked)
	return true
}

// SetAside buries job id, with a reason, because its body is damaged. It does nothing if a
// holder other than h has reserved the job. No counter grows, because no client
// asked for it. It returns whether the job was buried.
func (m *Machine) SetAside(now Instant, h Holder, id uint64, reason string) bool {
	j := m.Find(id)
	if j == nil || j.state == Buried || j.state == Reserved && j.holder != h {
		return false
	}
	m.noteReason(now, j, reason)
	m.clearAfter(now, j)
	m.dequeue(j)
	m.enter(now, j, Buried, nil)
	m.recount(now, j)
	m.journalChanged(j)
	m.journalBatches()
	return true
}
