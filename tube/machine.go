package tube

// Machine is all jobs, tubes and reservations of one server, in memory. It follows
// the table of arrows. It is not safe for concurrent use, and it reads no clock:
// methods that depend on time take now, which must not go backwards.
//
// It is built in floors. Each is a struct that contains the one below it: its methods can call what is below them, and
// nothing above. On each floor the receiver is called m: it is the Machine from that floor down.
type Machine struct {
	times
	schedules
	wereReserved []uint64 // restored jobs that were reserved, for EndRestore
	restoredUpTo int      // how many of these EndRestore has handled
}

// times is the floor of what becomes of a job whose delivery has failed, or whose time is over.
type times struct {
	queues
	pendingDead idQueue // pending dead letters, see NextPending
}

// queues is the floor on which jobs come, change their state, and go; and tubes with them.
type queues struct {
	members
	holdings  map[Holder]*holding
	takenBack map[Holder]map[uint64]struct{} // jobs that were taken back from a connection, which has not got them again; nil: none ever was
	recent    *holding                       // the one that was used last; nil if it was removed
	burials   int64                          // number of the last burial
	watched   watched                        // the tubes of the last Take from many
	coldJobs  int                            // of all tubes

	coldReady      int                // the ready ones of these
	coldDue        []ColdQueue        // see ColdDue
	coldLead       Instant            // see SetCold
	fewReady       int                // likewise
	tubesColdReady map[*Tube]struct{} // those that have cold ready jobs
}

// members is the floor that knows which jobs belong to a batch, and which wait for one.
type members struct {
	groups
	batches
}

// groups is the floor of what people set for groups and tubes, and what they see of them and of jobs.
type groups struct {
	turns
	unchecked unchecked
}

// turns is the floor that knows which job may start, and which one is next.
type turns struct {
	jobs
	takeable   []*Tube // tubes that are not paused and have a ready job
	woken      []*Tube // tubes in which a job became ready, see WakeUps
	throttles  throttles
	listed     listedGroups
	spareLanes []*lane
	deferring  bool  // see deferLanes
	deferred   *lane // likewise
}

// jobs is the floor of what there is: jobs with all that is known of them, tubes, keys and policies.
type jobs struct {
	base
	slab     slab
	byID     index
	tubes    map[string]*Tube
	order    []*Tube // in the order of list-tubes
	handles  handles // by Job.tube
	lastID   uint64
	totals   Totals
	flows    *Flows
	policies policies
	keys     keys
	expiries expiries
	metadata metadataTable

	// heldAtEnd are the restored ready jobs that were reserved when the last process ended, as long as they have not left their queue: their
	// records say so still, since that reservation does not count, but the job has been started.
	heldAtEnd map[uint64]struct{}

	hung map[uint64]struct{} // see noteHung; nil: none ever was

	reported Metadata // of the job that is being reported to the journal

	// saveCheckpoint is called with each checkpoint, by its number, before the journal learns of the job's new record; nil data: it is gone.
	saveCheckpoint func(number uint64, data []byte)
	checkpoints    CheckpointTotals
	ends           ends
}

// NewMachine returns a Machine without jobs, in which only the tube "default"
// exists. The first job gets the id 1.
func NewMachine() *Machine {
	m := new(Machine)
	m.alarms = newAlarms()
	m.byID, m.tubes, m.metadata.byJob, m.heldAtEnd = newIndex(), make(map[string]*Tube), make(map[ref]metadata), make(map[uint64]struct{})
	m.keys, m.expiries, m.policies.own = newKeys(&m.base), newExpiries(&m.base), make(map[string]*Policy)
	m.flows = NewFlows(RoomFor(DefaultNamed))
	m.throttles, m.listed.base = throttles{base: &m.base, byName: make(map[string]*throttle)}, &m.base
	m.holdings, m.tubesColdReady = make(map[Holder]*holding), make(map[*Tube]struct{})
	m.batches.named, m.schedules.named = newNamed[*batched](&m.base, false), newNamed[*scheduled](&m.base, true)
	m.keys.alarm.owner, m.expiries.alarm = &m.keys, alarm{owner: &m.expiries, last: true}
	m.batches.dues.alarm.owner, m.schedules.dues.alarm.owner = &m.batches.named, &m.schedules.named
	m.unchecked.alarm.owner, m.listed.alarm.owner = &m.unchecked, &m.listed
	m.open(Default)
	return m
}

// Terms come with a command that moves a job. Arrow.Sets says whether the job takes the priority
// and the delay, which is in seconds. Reason, unless it is empty, is why the delivery has failed. Holder is the name of who holds the
// job, for its record. Data is the result of a Finish, or the checkpoint of a SaveCheckpoint; it is kept, not copied. Progress, unless it
// is nil, comes with a Touch. KeepCheckpoint is for a KickJob.
type Terms struct {
	Pri, Delay     uint32
	Reason         string
	Holder         string
	Data           []byte
	Progress       *string
	KeepCheckpoint bool
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
	if arrow == nil || arrow.Held && j.holder != h || move == ReserveJob && !m.mayReserve(now, j) || move == Delete && m.wasTakenBack(h, id) {
		return nil
	}
	if move == Expire {
		m.noteTakenBack(j)
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
	if t.lanes != nil {
		m.deferLanes()
		defer m.updateDeferred(t)
	}
	m.moveAlong(now, j, arrow, h, &terms)
	if j.ID != id {
		return &goneJob
	}
	if move == ReserveJob {
		m.started(now, j)
	}
	return j
}

// moveAlong moves j along the arrow, on behalf of h, and reports it to the journal.
func (m *Machine) moveAlong(now Instant, j *Job, arrow *Arrow, h Holder, terms *Terms) {
	m.countArrow(now, j, arrow)
	if arrow.Move == Touch || arrow.Move == SaveCheckpoint {
		m.report(now, j, arrow, terms)
		return
	}
	if j.hasMetadata {
		m.dropReports(j, arrow, terms)
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
	hasRules := m.hasRules(j)
	if hasRules || terms.Reason != "" {
		m.noteFailure(now, j, arrow.Move, terms)
		hasRules = true
	}
	var gone removed
	changed := arrow.durable()
	if arrow.Move == Snooze {
		m.discount(j)
	}
	switch {
	case arrow.To == Gone:
		gone = m.leave(now, j, endingBy(arrow, terms))
	case hasRules:
		var more bool
		more, gone = m.enterByRules(now, j, arrow, to)
		changed = changed || more
	default:
		m.enter(now, j, arrow.To, to)
	}
	if gone.id != 0 {
		m.reportRemoved(gone)
	} else {
		if inBatch {
			m.recount(now, j)
		}
		if changed {
			m.journalChanged(j)
		}
		if hasRules {
			m.sendIfPending(now, j)
		}
	}
	if inBatch {
		m.batches.report()
	}
}

// enterByRules is enter for a job that has metadata, or is in a tube with a policy. It returns
// whether more has changed than the arrow says, and what is to be reported if j is gone.
func (m *Machine) enterByRules(now Instant, j *Job, arrow *Arrow, h *holding) (more bool, gone removed) {
	if arrow.From == Buried {
		m.unpark(now, j, arrow.Move)
	}
	if arrow.Move == Snooze && m.isOver(now, j) {
		return true, m.lapse(now, j)
	}
	if arrow.Ends == NoOutcome {
		m.enter(now, j, arrow.To, h)
		return h != nil && h.holder == LeaseHolder, gone
	}
	asked := uint32(0)
	if arrow.Sets == SetsPriAndDelay {
		asked = j.delay
	}
	return true, m.requeueOrPark(now, j, arrow.Ends, asked)
}

// MoveLeased is Move for a caller that has a lease token. It returns nil if token is not the
// present lease of the job.
func (m *Machine) MoveLeased(now Instant, move Move, token uint64, id uint64, terms Terms) *Job {
	if j := m.Find(id); j == nil || token == 0 || m.Lease(j) != token {
		return nil
	}
	return m.Move(now, move, LeaseHolder, id, terms)
}

// ReleaseSome makes up to limit of the jobs that h holds ready; no counter grows. It returns how
// many, and whether there are more. If there are no more, h is forgotten.
func (m *Machine) ReleaseSome(now Instant, h Holder, limit int) (n int, left bool) {
	delete(m.takenBack, h)
	held := m.holdings[h]
	if held == nil {
		return 0, false
	}
	for ; held.jobs.len() > 0; n++ {
		if n == limit {
			return n, true
		}
		m.moveAlong(now, held.jobs.head(&m.slab), arrowAt[GiveBack][Reserved], h, &noTerms)
	}
	delete(m.holdings, h)
	m.recent = nil
	return n, false
}
