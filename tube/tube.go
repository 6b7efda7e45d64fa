package tube

// Tube is one named queue inside a Machine.
type Tube struct {
	name string

	ready, delayed, buried queue
	lanes                  *lanes    // nil if none of its jobs has a group; else ready has only those without
	throttle               *throttle // nil: none
	reserved               int       // its jobs that are reserved, by any holder
	urgent                 int       // its jobs that are urgent
	waiting                int       // its delayed jobs that wait for a batch
	coldReady, coldDelayed cold

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
	handle       uint32  // number in Machine.handles, of its jobs without a group

	policy      *Policy // what applied when the stamp of all policies was this, see policies.ofTube
	policyStamp uint32
	limits      Limits // of that policy

	checkedStamp uint32 // the stamp of all policies when it was last found to be takeable or not
}

func (t *Tube) paused() bool { return t.pauseUntil != 0 }

// in returns how many jobs of t are in a state; with Gone, in any state but Reserved.
func (t *Tube) in(s State) int {
	switch s {
	case Gone:
		return t.jobs - t.reserved
	case Reserved:
		return t.reserved
	case Ready:
		if t.lanes != nil {
			return t.ready.len() + t.lanes.ready + t.coldIn(Ready)
		}
	}
	return t.queue(s).len() + t.coldIn(s)
}

// anyIn returns a job of t that is in a state, of which there is one.
func (m *Machine) anyIn(t *Tube, s State) *Job {
	if q := t.queue(s); q.len() > 0 {
		return q.head(&m.slab)
	}
	return t.lanes.byName.withReady().ready.head(&m.slab)
}

// queue returns the queue of t for Ready, without those of groups, Delayed or Buried.
func (t *Tube) queue(s State) *queue {
	switch s {
	case Ready:
		return &t.ready
	case Delayed:
		return &t.delayed
	}
	return &t.buried
}

// countHold records whether limits of t hold jobs. It counts when that begins.
func (t *Tube) countHold(held bool) {
	if held = held && t.offers(); held && !t.held {
		t.flow.Holds++
	}
	t.held = held
}

// handle is what Job.tube stands for: a tube, and the lane of the job's group if it has one.
type handle struct {
	tube *Tube
	lane *lane
}

// handles are numbered.
type handles struct {
	list  []handle
	spare []uint32 // numbers that are free
}

// add adds a handle and returns its number.
func (h *handles) add(x handle) uint32 {
	if n := len(h.spare); n > 0 {
		i := h.spare[n-1]
		h.spare, h.list[i] = h.spare[:n-1], x
		return i
	}
	h.list = append(h.list, x)
	return uint32(len(h.list) - 1)
}

// free lets a number be used again.
func (h *handles) free(i uint32) {
	h.list[i] = handle{}
	h.spare = append(h.spare, i)
}
