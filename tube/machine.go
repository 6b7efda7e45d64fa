package tube

import "math"

// Machine is all jobs, tubes and reservations of one server, in memory. Its
// methods are pure apart from changing the Machine: now is always an
// argument and must not go backwards. It is not safe for concurrent use.
type Machine struct {
	slab     slab
	jobs     index
	tubes    map[string]*Tube
	order    []*Tube  // as list-tubes prints them
	handles  []*Tube  // by Job.tube; a tube keeps its place here
	spare    []uint32 // places in handles that are free
	holdings map[Holder]*holding
	recent   *holding // the one that was used last, nil if that is gone
	alarms   alarms
	journal  Journal // nil if nothing is to survive
	roused   []*Tube // tubes in which a job became ready, see Roused
	takeable []*Tube // tubes that are not paused and have a ready job
	watched  watched // the tubes of the last Take of many
	lastID   uint64
	burials  int64 // number of the last burial
	totals   Totals
}

// holding is what one holder has reserved.
type holding struct {
	holder Holder
	jobs   queue
	alarm  alarm
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
	m := &Machine{
		jobs:     newIndex(),
		tubes:    make(map[string]*Tube),
		holdings: make(map[Holder]*holding),
	}
	m.open(Default)
	return m
}

// NewJob is what a put asks for. Delay and TTR are seconds.
type NewJob struct {
	Tube            string
	Pri, Delay, TTR uint32
	Body            []byte // kept, not copied
}

// Put makes a job and returns it. The tube comes into being if it is not
// there.
func (m *Machine) Put(now Instant, p NewJob) *Job {
	t := m.open(p.Tube)
	m.lastID++
	j := m.slab.alloc()
	j.ID, j.tube, j.created = m.lastID, t.handle, now
	j.pri, j.delay, j.ttr, j.size = p.Pri, p.Delay, max(p.TTR, MinTTR), uint32(len(p.Body))
	if len(p.Body) > 0 {
		m.slab.keep(j, p.Body)
	}
	m.jobs.set(j.ID, j.self)
	t.jobs++
	t.total++
	m.totals.Jobs++
	m.settle(now, j, Delayed, nil)
	if m.journal != nil {
		m.journal.Put(m.record(j), p.Body)
	}
	return j
}

// Terms come with a command that moves a job. Arrow.Sets says which of them the
// job takes over; the others are ignored. Delay is in seconds.
type Terms struct{ Pri, Delay uint32 }

// gone is what Move returns for a job that it has deleted.
var gone Job

// Move does what the table says for this move of job id, asked for by h. It
// returns the job as it is afterwards, or nil when there is no such job, no
// row for its state, or somebody else holds it: NOT_FOUND. Reserve, which
// chooses its job by itself, is Take.
func (m *Machine) Move(now Instant, move Move, h Holder, id uint64, terms Terms) *Job {
	j := m.Find(id)
	if j == nil {
		return nil
	}
	arrow := arrowAt[move][j.state]
	if arrow == nil || arrow.Held && j.holder != h {
		return nil
	}
	switch arrow.Sets {
	case SetsPri:
		j.pri = terms.Pri
	case SetsPriAndDelay:
		j.pri, j.delay = terms.Pri, terms.Delay
	}
	if move == Delete {
		m.tubeOf(j).deletes++
	}
	m.follow(now, j, arrow, h)
	if arrow.To == Gone {
		return &gone
	}
	return j
}

// follow takes j along the arrow, on behalf of h.
func (m *Machine) follow(now Instant, j *Job, arrow *Arrow, h Holder) {
	if arrow.Counts != NoCounter {
		j.counters[arrow.Counts]++
	}
	var to *holding
	if arrow.To == Reserved {
		to = m.hold(h)
	}
	m.leavePlace(j)
	// The delay was for the way through Delayed; a kicked or matured job
	// keeps it for stats-job but goes where the arrow says.
	id, size := j.ID, j.size
	m.settle(now, j, arrow.To, to)
	switch {
	case m.journal == nil:
	case arrow.To == Gone:
		m.journal.Deleted(id, size)
	case arrow.lasting():
		m.journal.Changed(m.record(j))
	}
}

// settle gives j, which is in no queue, its new state and place.
func (m *Machine) settle(now Instant, j *Job, to State, h *holding) {
	if to == Delayed && j.delay == 0 {
		to = Ready
	}
	switch to {
	case Ready:
		m.place(j, Ready, int64(j.pri))
	case Delayed:
		m.place(j, Delayed, int64(now.After(j.delay)))
	case Buried:
		m.burials++
		m.place(j, Buried, m.burials)
	case Reserved:
		j.holder = h.holder
		j.state, j.rank = Reserved, int64(now.After(j.ttr))
		h.jobs.add(&m.slab, j)
		m.tubeOf(j).reserved++
		m.totals.Reserved++
		m.alarms.set(&h.alarm, m.nextDue(h))
	case Gone:
		t := m.tubeOf(j)
		m.jobs.delete(j.ID)
		m.slab.release(j)
		t.jobs--
		m.dropUnused(t)
	}
}

// place puts j, which is in no queue, into the queue of its tube for a state.
func (m *Machine) place(j *Job, to State, rank int64) {
	j.state, j.rank = to, rank
	t, s := m.tubeOf(j), &m.slab
	switch to {
	case Ready:
		t.ready.add(s, j)
		m.noteTakeable(t)
		m.countReady(j, 1)
		m.rouse(t)
	case Delayed:
		t.delayed.add(s, j)
		m.totals.Delayed++
		m.rearm(t)
	case Buried:
		t.buried.add(s, j)
		m.totals.Buried++
	}
}

// leavePlace takes j out of the queue in which it is.
func (m *Machine) leavePlace(j *Job) {
	t, s := m.tubeOf(j), &m.slab
	switch j.state {
	case Ready:
		t.ready.remove(s, j)
		m.noteTakeable(t)
		m.countReady(j, -1)
	case Delayed:
		t.delayed.remove(s, j)
		m.totals.Delayed--
		m.rearm(t)
	case Buried:
		t.buried.remove(s, j)
		m.totals.Buried--
	case Reserved:
		h := m.holdingOf(j.holder)
		j.holder = 0
		h.jobs.remove(s, j)
		t.reserved--
		m.totals.Reserved--
		m.alarms.set(&h.alarm, m.nextDue(h))
	}
}

// countReady counts j in or out of the ready and, by its rank, the urgent
// jobs. The rank, not the priority: release and bury change the latter while
// the job is elsewhere.
func (m *Machine) countReady(j *Job, by int) {
	m.totals.Ready += uint64(by)
	if j.rank < UrgentBelow {
		m.tubeOf(j).urgent += by
		m.totals.Urgent += uint64(by)
	}
}

// nextDue is the nearest deadline of what h holds, or Never.
func (m *Machine) nextDue(h *holding) Instant {
	if j := h.jobs.head(&m.slab); j != nil {
		return Instant(j.rank)
	}
	return Never
}

// holdingOf returns what h holds, nil if it never held anything. Mostly it is
// asked for many times in a row for one holder, who has sent many commands.
func (m *Machine) holdingOf(h Holder) *holding {
	if m.recent == nil || m.recent.holder != h {
		m.recent = m.holdings[h]
	}
	return m.recent
}

// hold returns what h holds, ready to take more.
func (m *Machine) hold(h Holder) *holding {
	held := m.holdingOf(h)
	if held == nil {
		held = &holding{holder: h}
		held.alarm = alarm{pos: -1, holding: held}
		m.holdings[h] = held
	}
	return held
}

// Take reserves for h the job with the smallest (priority, id) among the
// ready ones of those of the named tubes that are not paused. If there is
// none it returns nil and the instant from which h, waiting, is to be told
// DEADLINE_SOON: Margin before the nearest deadline of what h holds, or Never.
func (m *Machine) Take(now Instant, h Holder, tubes []string) (*Job, Instant) {
	best := m.best(tubes)
	if best == nil {
		return nil, m.soon(h)
	}
	m.follow(now, best, arrowAt[Reserve][Ready], h)
	return best, Never
}

func (m *Machine) soon(h Holder) Instant {
	held := m.holdingOf(h)
	if held == nil || held.jobs.len() == 0 {
		return Never
	}
	return m.nextDue(held) - Instant(Margin)
}

// Kick moves up to bound jobs of the tube to ready and returns how many:
// buried ones in the order of burying if there is any, else delayed ones by
// due time; never both.
func (m *Machine) Kick(now Instant, tube string, bound uint32) int {
	from, n := m.Kickable(tube)
	return m.KickSome(now, tube, from, min(int(bound), n))
}

// Kickable returns in which state the jobs are that a kick of the tube would
// move, and how many are in it.
func (m *Machine) Kickable(tube string) (from State, jobs int) {
	t := m.tubes[tube]
	switch {
	case t == nil:
		return Buried, 0
	case t.buried.len() > 0:
		return Buried, t.buried.len()
	}
	return Delayed, t.delayed.len()
}

// KickSome is a part of a kick, whose jobs are in the state from: it moves up
// to limit of them to ready, and returns how many. Fewer than limit means that
// there are no more.
func (m *Machine) KickSome(now Instant, tube string, from State, limit int) int {
	t := m.tubes[tube]
	if t == nil {
		return 0
	}
	q := &t.buried
	if from == Delayed {
		q = &t.delayed
	}
	n := min(limit, q.len())
	for range n {
		m.follow(now, q.head(&m.slab), arrowAt[KickJob][from], 0)
	}
	return n
}

// Leave makes everything that h holds ready, without counting anything, and
// forgets h.
func (m *Machine) Leave(now Instant, h Holder) {
	for left := true; left; {
		_, left = m.LeaveSome(now, h, math.MaxInt)
	}
}

// LeaveSome is a part of Leave: it gives back up to limit jobs and returns how
// many, and whether any are left. When none are, h is forgotten.
func (m *Machine) LeaveSome(now Instant, h Holder, limit int) (n int, left bool) {
	held := m.holdings[h]
	if held == nil {
		return 0, false
	}
	for ; held.jobs.len() > 0; n++ {
		if n == limit {
			return n, true
		}
		m.follow(now, held.jobs.head(&m.slab), arrowAt[GiveBack][Reserved], h)
	}
	delete(m.holdings, h)
	m.recent = nil
	return n, false
}

// SetAside buries job id, whose body cannot be read, unless somebody other than
// h has reserved it. No client has asked for that, so no counter grows. It
// returns false if there is nothing to bury.
func (m *Machine) SetAside(now Instant, h Holder, id uint64) bool {
	j := m.Find(id)
	if j == nil || j.state == Buried || j.state == Reserved && j.holder != h {
		return false
	}
	m.leavePlace(j)
	m.settle(now, j, Buried, nil)
	if m.journal != nil {
		m.journal.Changed(m.record(j))
	}
	return true
}

// Tick does up to limit things that are due: it makes delayed jobs ready,
// ends pauses and takes back reservations whose TTR has run out. It returns
// when the next thing is due; that is now or earlier if limit was reached.
func (m *Machine) Tick(now Instant, limit int) Instant {
	for ; limit > 0 && m.alarms.next() <= now; limit-- {
		m.ring(now, m.alarms[0])
	}
	return m.alarms.next()
}

// Next returns when the next thing is due.
func (m *Machine) Next() Instant { return m.alarms.next() }

func (m *Machine) ring(now Instant, a *alarm) {
	if h := a.holding; h != nil {
		m.totals.Timeouts++
		m.follow(now, h.jobs.head(&m.slab), arrowAt[Expire][Reserved], h.holder)
		return
	}
	t := a.tube
	if j := t.delayed.head(&m.slab); j != nil && Instant(j.rank) <= now {
		m.follow(now, j, arrowAt[Mature][Delayed], 0)
		return
	}
	m.resume(t)
	m.rearm(t)
	m.rouse(t)
}

// Find returns job id, or nil.
func (m *Machine) Find(id uint64) *Job {
	if r := m.jobs.get(id); r != 0 {
		return m.slab.at(r)
	}
	return nil
}

// Body returns the body of j, if it is kept here: nil if there is none or it
// was dropped.
func (m *Machine) Body(j *Job) []byte { return m.slab.body(j) }

// BodyBytes returns the sum of the sizes of all bodies that are kept.
func (m *Machine) BodyBytes() int64 { return m.slab.bytes }

// DropBody forgets the body of j, which is from now on somebody else's to
// keep.
func (m *Machine) DropBody(j *Job) { m.slab.keep(j, nil) }

// Head returns the first job of a tube in the state: the next to be reserved,
// the next to become ready, or the one buried first. It returns nil if there
// is none.
func (m *Machine) Head(tube string, s State) *Job {
	t := m.tubes[tube]
	if t == nil {
		return nil
	}
	switch s {
	case Ready:
		return t.ready.head(&m.slab)
	case Delayed:
		return t.delayed.head(&m.slab)
	case Buried:
		return t.buried.head(&m.slab)
	}
	return nil
}

// JobStats tells about job id; false if there is none.
func (m *Machine) JobStats(now Instant, id uint64) (JobStats, bool) {
	j := m.Find(id)
	if j == nil {
		return JobStats{}, false
	}
	return m.jobStats(now, j), true
}

// Totals returns the counts over all tubes.
func (m *Machine) Totals() Totals {
	t := m.totals
	t.Tubes = uint64(len(m.order))
	return t
}
