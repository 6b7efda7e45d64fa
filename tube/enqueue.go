package tube

import "time"

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

// setMetadata sets the metadata of j, which has none yet. The key must be free. The caller makes j a member of its
// batch when it is in a queue.
func (m *queues) setMetadata(j *Job, of Metadata) {
	var f metadata
	if of.Key != "" {
		f.name = keyName(m.tubeOf(j).name, of.Key)
		m.keys.jobs[f.name] = j.self
	}
	known := of.Group != "" || of.Batch != ""
	if of.Group != "" {
		m.joinGroup(j, of.Group)
	}
	of.Key, of.Group, of.Batch = "", "", ""
	if !of.zero() {
		m.metadata.share(&of.Rules)
		f.more = new(Metadata)
		*f.more = of
	}
	if j.hasMetadata = !known || f != (metadata{}); j.hasMetadata {
		m.metadata.byJob[j.self] = f
	}
	if of.Expires != 0 && of.After == "" {
		m.expiries.add(j.ID, of.Expires)
	}
	m.countCheckpoint(j, 0, of.Checkpoint.Size)
}

// enter gives j, which is in no queue, a new state other than Gone, and adds it to the queue of that
// state. Delayed becomes Ready if the job has no delay. h is nil unless to is
// Reserved.
func (m *queues) enter(now Instant, j *Job, to State, h *holding) {
	if to == Delayed && j.delay == 0 {
		to = Ready
	}
	switch to {
	case Ready:
		m.enqueue(j, Ready, int64(j.pri))
	case Delayed:
		m.enqueue(j, Delayed, int64(now.After(j.delay)))
	case Buried:
		m.burials++
		m.enqueue(j, Buried, m.burials)
	case Reserved:
		m.enqueueReserved(now, j, h)
	}
}

// leave removes j, which is in no queue, because it is done, or was deleted by a command about it alone.
func (m *queues) leave(now Instant, j *Job, end ending) removed {
	r := m.removed(now, j, end)
	if j.batch != 0 {
		m.leaveBatches(now, j, true)
	}
	m.forget(now, j)
	return r
}

// enterIn makes j, which is in no queue, due after a wait; ready if that is zero. Its delay
// becomes the wait, rounded up to whole seconds.
func (m *queues) enterIn(now Instant, j *Job, wait time.Duration) {
	j.delay = wholeSeconds(wait)
	if wait > 0 {
		m.enqueue(j, Delayed, int64(now.Plus(wait)))
	} else {
		j.dueSince(now)
		m.enqueue(j, Ready, int64(j.pri))
	}
}

// holdAfter puts j, which is in no queue, where it waits for a batch. It becomes due after the wait when that ends.
func (m *queues) holdAfter(j *Job, wait time.Duration) {
	j.delay = wholeSeconds(wait)
	m.enqueue(j, Delayed, int64(Never))
}

// enqueue adds j, which is in no queue, to the queue of its tube for a state other
// than Reserved.
func (m *queues) enqueue(j *Job, to State, rank int64) {
	j.state, j.rank = to, rank
	j.place &^= byWallTime
	t, s := m.tubeOf(j), &m.slab
	switch to {
	case Ready:
		if t.lanes == nil {
			t.ready.add(s, j)
			m.updateTakeable(t)
			m.addWakeUp(t)
		} else {
			m.addReady(m.laneOf(j), j)
		}
		m.countReady(j, 1)
	case Delayed:
		t.delayed.add(s, j)
		m.countInGroup(j, 1)
		m.totals.Delayed++
		m.rearmTube(t)
	case Buried:
		t.buried.add(s, j)
		m.ends.notice(j.ID)
		m.countInGroup(j, 1)
		m.totals.Buried++
	}
}

// enqueueReserved makes j, which is in no queue, a reservation of h for its TTR.
func (m *queues) enqueueReserved(now Instant, j *Job, h *holding) {
	m.reserve(j, h, int64(now.After(j.ttr)))
}

// reserve makes j, which is in no queue, a reservation of h until a deadline.
func (m *queues) reserve(j *Job, h *holding, deadline int64) {
	if len(m.takenBack) > 0 {
		delete(m.takenBack[h.holder], j.ID)
	}
	j.holder = h.holder
	j.state, j.rank = Reserved, deadline
	j.place &^= byWallTime
	h.jobs.add(&m.slab, j)
	m.countReserved(j, 1)
	m.alarms.set(&h.alarm, h.due(&m.slab))
}

// Remove removes a job, whatever its state and holder. It counts as deleted from its
// tube.
func (m *queues) Remove(now Instant, j *Job) { m.removeAs(now, j, ending{how: Deleted}) }

// removeAs is Remove with how the job ends.
func (m *queues) removeAs(now Instant, j *Job, end ending) {
	m.reportRemoved(m.remove(now, j, end))
	m.batches.report()
}

// remove is removeAs without a report of it.
func (m *queues) remove(now Instant, j *Job, end ending) removed {
	r := m.removed(now, j, end)
	t := m.tubeOf(j)
	t.deletes++
	t.flow.Deletes++
	m.dequeue(j)
	m.forget(now, j)
	return r
}

// dequeue removes j from its queue.
func (m *queues) dequeue(j *Job) {
	t, s := m.tubeOf(j), &m.slab
	switch j.state {
	case Ready:
		if len(m.heldAtEnd) > 0 {
			delete(m.heldAtEnd, j.ID)
		}
		if t.lanes == nil {
			t.ready.remove(s, j)
			m.updateTakeable(t)
		} else {
			m.removeReady(m.laneOf(j), j)
		}
		m.countReady(j, -1)
	case Delayed:
		t.delayed.remove(s, j)
		m.countInGroup(j, -1)
		m.totals.Delayed--
		m.rearmTube(t)
	case Buried:
		t.buried.remove(s, j)
		m.countInGroup(j, -1)
		m.totals.Buried--
	case Reserved:
		h := m.holdingOf(j.holder)
		j.holder = 0
		if len(m.hung) > 0 {
			delete(m.hung, j.ID)
		}
		h.jobs.remove(s, j)
		m.countReserved(j, -1)
		m.alarms.set(&h.alarm, h.due(&m.slab))
	}
}

// touch lets the TTR of j, which is reserved, begin anew.
func (m *queues) touch(now Instant, j *Job) {
	h := m.holdingOf(j.holder)
	h.jobs.remove(&m.slab, j)
	j.rank = int64(now.After(j.ttr))
	j.place &^= byWallTime
	h.jobs.add(&m.slab, j)
	m.alarms.set(&h.alarm, h.due(&m.slab))
	if j.holder == LeaseHolder {
		m.journalChanged(j)
	}
}

// forget removes j, which is in no queue. j must not be used any more.
func (m *queues) forget(now Instant, j *Job) {
	t, l := m.tubeOf(j), m.handles.list[j.tube].lane
	if j.batch != 0 {
		m.leaveBatches(now, j, false)
	}
	if j.hasMetadata {
		m.forgetMetadata(now, j)
	}
	if l != nil {
		m.leaveHead(l, j)
		m.leaveLane(now, l)
	}
	m.byID.delete(j.ID)
	m.ends.notice(j.ID)
	t.bytes -= uint64(j.size)
	m.slab.release(j)
	t.jobs--
	m.dropUnused(t)
}

// forgetMetadata removes the metadata of j, which is about to be removed. Its key stays taken
// for as long as the rules say.
func (m *queues) forgetMetadata(now Instant, j *Job) {
	m.expiries.remove(j.ID)
	m.countCheckpoint(j, m.metadata.of(j).Checkpoint.Size, 0)
	if name := m.metadata.byJob[j.self].name; name != "" {
		delete(m.keys.jobs, name)
		if ttl := m.rulesOf(j).KeyTTL; ttl > 0 {
			m.keys.leave(name, tombstone{j.ID, now + Instant(ttl)})
		}
	}
	delete(m.metadata.byJob, j.self)
}

// countReserved adds to the number of reserved jobs, to which j begins or ceases to belong.
func (m *queues) countReserved(j *Job, by int) {
	t := m.tubeOf(j)
	t.reserved += by
	m.totals.Reserved += uint64(by)
	if t.lanes != nil {
		m.countInLane(m.laneOf(j), by)
	}
	if m.policies.limit(t) && m.updateTakeable(t) {
		m.addWakeUp(t)
	}
}

// countReady adds by to the number of ready jobs and, if j is urgent, of urgent
// jobs. It uses the rank of j, not its priority, because release and bury change
// the priority while the rank is still that of another queue.
func (m *queues) countReady(j *Job, by int) {
	m.totals.Ready += uint64(by)
	if m.coldReady > 0 {
		m.rearmCold(&m.tubeOf(j).coldReady)
	}
	if j.rank < UrgentBelow {
		m.tubeOf(j).urgent += by
		m.totals.Urgent += uint64(by)
	}
}
