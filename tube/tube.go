package tube

import "time"

// Tube is one named queue inside a Machine.
type Tube struct {
	name string

	ready, delayed, buried queue
	lanes                  *lanes    // nil if none of its jobs has a group; else ready has only those without
	throttle               *throttle // nil: none
	reserved               int       // its jobs that are reserved, by any holder
	urgent                 int       // its jobs that are urgent
	waiting                int       // its delayed jobs that wait for a batch

	jobs            int    // its jobs in any state
	bytes           uint64 // of their bodies
	using, watching int    // connections

	total, deletes, pauses uint64
	expired                uint64 // jobs whose time was over, deleted or parked

	flow *Flow // its own, or the one shared by tubes that have none

	pauseSeconds uint32
	pauseUntil   Instant // 0: not paused
	alarm        alarm   // set to the first delayed job or the end of the pause
	woken        bool    // it is in Machine.woken
	held         bool    // its limits hold a ready job that its group does not hold
	takeableAt   int     // index in Machine.takeable, counted from 1; 0: it is not there
	listed       uint64  // watched.stamp of the last list that it was in
	index        int     // in Machine.order
	handle       uint32  // index in Machine.handles, of its jobs without a group

	policy      *Policy // what applied when the stamp of all policies was this, see policyOfTube
	policyStamp uint32
	limits      Limits // of that policy

	checkedStamp uint32 // the stamp of all policies when it was last found to be takeable or not
}

// TubeStats is what stats-tube prints about a tube.
type TubeStats struct {
	Name                                     string
	Urgent, Ready, Reserved, Delayed, Buried uint64
	Total                                    uint64 // jobs ever put here
	Using, Watching                          uint64 // connections
	Waiting                                  uint64 // connections that wait in a reserve; the Machine does not know it and leaves it 0
	Deletes, Pauses                          uint64 // successful deletes; pause-tube commands
	Pause                                    uint32 // length of the present pause in seconds, as asked for; 0: not paused
	PauseLeft                                time.Duration
	OldestReady                              time.Duration // since the put of the oldest ready job, see oldestReady; 0 if none is ready
	HasPolicy                                bool          // of its own, or by a prefix of its name
	Expired                                  uint64        // jobs whose time was over, deleted or parked
	Limits                                   *LimitStats   // nil: none, or they were not asked for
	Waits, Runs                              Times         // of the tube's Flow; of all servers on the same store, as far as they have reported
}

// Role says how a connection refers to a tube.
type Role uint8

// The roles. Both keep a tube alive.
const (
	Using Role = iota
	Watching
)

// Ref adds delta to the number of connections that refer to a tube in a role. It
// creates the tube if delta is positive and there is none of that name. It removes
// the tube if nothing keeps it alive any more.
func (m *queues) Ref(name string, role Role, delta int) {
	t := m.tubes[name]
	if t == nil {
		if delta <= 0 {
			return
		}
		t = m.open(name)
	}
	if role == Using {
		t.using += delta
	} else {
		t.watching += delta
	}
	if delta < 0 {
		m.dropUnused(t)
	}
}

// Pause makes Take find nothing in a tube for that many seconds; 0 ends the pause. It
// returns false if there is no such tube.
func (m *queues) Pause(now Instant, name string, seconds uint32) bool {
	t := m.tubes[name]
	if t == nil {
		return false
	}
	t.pauses++
	if seconds == 0 {
		m.resume(t)
		m.rearmTube(t)
		m.addWakeUp(t)
		return true
	}
	t.pauseSeconds = seconds
	t.pauseUntil = now.After(seconds)
	m.updateTakeable(t)
	m.rearmTube(t)
	if m.journal != nil {
		m.journal.Paused(name, seconds, m.Wall(t.pauseUntil))
	}
	return true
}

func (t *Tube) paused() bool { return t.pauseUntil != 0 }

// resume ends the pause of t, if it has one.
func (m *queues) resume(t *Tube) {
	if !t.paused() {
		return
	}
	t.pauseSeconds, t.pauseUntil = 0, 0
	m.updateTakeable(t)
	if m.journal != nil {
		m.journal.Paused(t.name, 0, 0)
	}
}

// TubeStats returns what stats-tube prints about a tube; false if there is none of
// that name.
func (m *groups) TubeStats(now Instant, name string) (TubeStats, bool) {
	t := m.tubes[name]
	if t == nil {
		return TubeStats{}, false
	}
	s := TubeStats{
		Name: name, Urgent: uint64(t.urgent), Ready: uint64(t.in(Ready)),
		Reserved: uint64(t.reserved), Delayed: uint64(t.delayed.len()), Buried: uint64(t.buried.len()),
		Total: t.total, Deletes: t.deletes, Pauses: t.pauses, Pause: t.pauseSeconds, Expired: t.expired,
		Using: uint64(t.using), Watching: uint64(t.watching),
	}
	s.HasPolicy = m.policyOf(name) != nil
	if t.flow != &m.flows.Rest {
		s.Waits, s.Runs = t.flow.Waits, t.flow.Runs
	}
	if at := m.oldestReady(t); at != Never {
		s.OldestReady = time.Duration(max(now-at, 0))
	}
	if t.paused() {
		s.PauseLeft = max(t.pauseUntil.Until(now), 0)
	}
	return s, true
}

// Tubes returns the names of all tubes in beanstalkd's order: in the order of
// creation, except that the last one takes the position of one that is removed.
func (m *jobs) Tubes() []string {
	names := make([]string, len(m.order))
	for i, t := range m.order {
		names[i] = t.name
	}
	return names
}

// open returns the tube of that name. It creates it if there is none.
func (m *queues) open(name string) *Tube {
	t := m.tubes[name]
	if t == nil {
		t = &Tube{name: name, index: len(m.order), handle: m.newHandle(), flow: m.flows.Open(name)}
		m.handles[t.handle], t.throttle = handle{tube: t}, m.throttleOf(name, "")
		t.alarm.owner = t
		m.tubes[name] = t
		m.order = append(m.order, t)
		m.recheckTokens(t.throttle, m.policies.limitsOf(t).Rates)
		m.ForgetWatched()
	}
	return t
}

// tubeOf returns the tube of j.
func (m *jobs) tubeOf(j *Job) *Tube { return m.handles[j.tube].tube }

// handle is what Job.tube stands for: a tube, and the lane of the job's group if it has one.
type handle struct {
	tube *Tube
	lane *lane
}

// freeHandle lets an index of handles be used again.
func (m *jobs) freeHandle(i uint32) {
	m.handles[i] = handle{}
	m.spare = append(m.spare, i)
}

// newHandle returns a free index of handles.
func (m *jobs) newHandle() uint32 {
	if n := len(m.spare); n > 0 {
		h := m.spare[n-1]
		m.spare = m.spare[:n-1]
		return h
	}
	m.handles = append(m.handles, handle{})
	return uint32(len(m.handles) - 1)
}

// dropUnused removes t if nothing keeps it alive.
func (m *queues) dropUnused(t *Tube) {
	if t.jobs > 0 || t.using > 0 || t.watching > 0 || t.name == Default {
		return
	}
	m.resume(t)
	m.alarms.set(&t.alarm, Never)
	delete(m.tubes, t.name)
	delete(m.policies.merged, t.name)
	m.flows.Drop(t.name)
	m.freeHandle(t.handle)
	last := len(m.order) - 1
	m.order[t.index] = m.order[last]
	m.order[t.index].index = t.index
	m.order[last] = nil
	m.order = m.order[:last]
}

// rearmTube sets the tube's alarm to the next thing that is due in it.
func (m *queues) rearmTube(t *Tube) {
	at := Never
	if j := t.delayed.head(&m.slab); j != nil {
		at = Instant(j.rank)
	}
	if t.paused() {
		at = min(at, t.pauseUntil)
	}
	m.alarms.set(&t.alarm, at)
}

// addWakeUp records that a job can now be taken from t.
func (m *groups) addWakeUp(t *Tube) {
	if !t.woken && t.takeableAt != 0 {
		t.woken = true
		m.woken = append(m.woken, t)
	}
}

// WakeUps calls wake with the name of each tube in which a job has become available
// since the last call. Some of these jobs may have been taken since.
func (m *groups) WakeUps(wake func(tube string)) {
	for i, t := range m.woken {
		t.woken = false
		m.woken[i] = nil
		wake(t.name)
	}
	m.woken = m.woken[:0]
}
