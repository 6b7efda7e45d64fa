package tube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Restore brings back a job from its record. Jobs can come in any order, but after the
// policies. body is kept, not copied; nil means that the body is stored elsewhere. An error
// means that the record is invalid. EndRestore must be called after the last job.
func (m *Machine) Restore(now Instant, r Record, body []byte) error {
	j, err := m.restoreJob(now, &r, body)
	if err != nil {
		return err
	}
	if err := m.restoreState(now, j, r); err != nil || r.Metadata == nil {
		return err
	}
	m.restoreInBatch(now, j, r.Metadata.Batch)
	return nil
}

// restoreJob returns a job of a record that is in no queue yet.
func (m *queues) restoreJob(now Instant, r *Record, body []byte) (*Job, error) {
	if r.ID == 0 || m.byID.get(r.ID) != 0 {
		return nil, fmt.Errorf("job id %d is zero or used twice", r.ID)
	}
	t := m.open(r.Tube)
	j := m.slab.alloc()
	j.ID, j.tube, j.created = r.ID, t.handle, min(r.Created, now) // the wall clock can have been set back
	j.pri, j.delay, j.ttr, j.size, j.counters = r.Pri, r.Delay, max(r.TTR, MinTTR), r.Size, r.Counters
	if len(body) > 0 {
		m.slab.keep(j, body, nil)
	}
	m.byID.set(j.ID, j.self)
	m.lastID = max(m.lastID, j.ID)
	t.jobs++
	t.bytes += uint64(j.size)
	if r.Metadata != nil {
		if m.ByKey(r.Tube, r.Metadata.Key) != nil {
			return nil, fmt.Errorf("job %d has a key that another job has", r.ID)
		}
		m.setMetadata(j, *r.Metadata)
	}
	return j, nil
}

// restoreState puts j, which is in no queue, into the queue that its record says.
func (m *Machine) restoreState(now Instant, j *Job, r Record) error {
	switch {
	case r.State == Reserved:
		m.restoreLease(j, min(r.Rank, int64(now.After(j.ttr))))
	case r.State == Buried:
		m.burials = max(m.burials, r.Rank)
		m.enqueue(j, Buried, r.Rank)
		if m.metadata.of(j).PendingDead != "" {
			m.pendingDead.add(j.ID)
		}
	case r.State == Delayed && Instant(r.Rank) > now:
		m.enqueue(j, Delayed, r.Rank)
		j.place |= byWallTime
	case r.State == Delayed || r.State == Ready:
		j.dueSince(r.Created.After(r.Delay))
		if r.State == Delayed {
			j.dueSince(Instant(r.Rank))
		}
		m.enqueue(j, Ready, int64(j.pri))
		if r.Held {
			m.wereReserved = append(m.wereReserved, j.ID)
			m.heldAtEnd[j.ID] = struct{}{}
			if j.counters[Reserves] > 0 { // the server has ended the reservation, so it does not count
				j.counters[Reserves]--
			}
		}
	default:
		return fmt.Errorf("job %d is recorded as %v", r.ID, r.State)
	}
	return nil
}

// Adopt adds a job of another server, with everything in its record except the reservation,
// the metadata and the number of its burial; it gets a new burial number. Its id must already
// count as used, see SkipTo. The job counts as put. Adopt returns false, and does nothing, if
// the job exists already. The body is kept, not copied.
func (m *Machine) Adopt(now Instant, r Record, body []byte) bool {
	if m.byID.get(r.ID) != 0 {
		return false
	}
	r.Metadata, r.Held, r.Size, r.Created = nil, false, uint32(len(body)), m.fromWall(r.Created)
	switch r.State {
	case Delayed:
		r.Rank = int64(m.fromWall(Instant(r.Rank)))
	case Buried:
		r.Rank = m.burials + 1
	}
	if m.Restore(now, r, body) != nil {
		return false
	}
	j := m.Find(r.ID)
	m.tubeOf(j).total++
	m.totals.Jobs++
	if m.journal != nil {
		m.journal.Put(m.record(j, &m.reported), body, nil)
	}
	return true
}

// EndRestore must be called when all jobs are restored and the journal is set. It handles up to
// limit jobs that were reserved: those whose time is over expire. The records of the
// others stay: see heldAtEnd. It returns whether there are more.
func (m *Machine) EndRestore(now Instant, limit int) (more bool) {
	n := min(m.restoredUpTo+limit, len(m.wereReserved))
	for _, id := range m.wereReserved[m.restoredUpTo:n] {
		j := m.Find(id)
		if !m.isOver(now, j) {
			m.recount(now, j)
			continue
		}
		m.dequeue(j)
		if gone := m.lapse(now, j); gone.id != 0 {
			m.reportRemoved(gone)
			continue
		}
		m.recount(now, j)
		m.journalChanged(j)
		m.sendIfPending(now, j)
	}
	m.batches.report()
	if m.restoredUpTo = n; n < len(m.wereReserved) {
		return true
	}
	m.restoreLanes()
	m.wereReserved, m.restoredUpTo = nil, 0
	return false
}

// RestorePause brings back the pause of a tube. If the wall clock was set back, it begins anew. It returns false if the pause is over, or if
// there is no such tube: a tube without a job does not survive a restart, because no
// connection uses or watches it.
func (m *Machine) RestorePause(now Instant, name string, seconds uint32, until Instant) bool {
	t := m.tubes[name]
	if t == nil || until <= now {
		return false
	}
	t.pauseSeconds, t.pauseUntil = seconds, min(until, now.After(seconds))
	m.updateTakeable(t)
	m.rearmTube(t)
	return true
}

// RestoreKey brings back a tombstone: a key that stays taken although its job is gone. It
// returns false if its time is over.
func (m *Machine) RestoreKey(now Instant, tube, key string, id uint64, until Instant) bool {
	if until <= now {
		return false
	}
	m.keys.restore(keyName(tube, key), tombstone{id, until})
	return true
}

// SortTubes puts the tubes into the order of their names, behind Default. It is called after all jobs are restored: then no
// order of theirs is known, since some can be cold.
func (m *Machine) SortTubes() {
	slices.SortFunc(m.order[1:], func(a, b *Tube) int { return cmp.Compare(a.name, b.name) })
	for i, t := range m.order {
		t.index = i
	}
}

// LastID returns the largest id that was used so far.
func (m *Machine) LastID() uint64 { return m.lastID }

// SkipTo makes all ids up to id count as used.
func (m *Machine) SkipTo(id uint64) { m.lastID = max(m.lastID, id) }

// restoreLanes gives turns and heads to the lanes, after all jobs are restored: turns in the order of
// the ready job of each lane that was put first. The head is a delayed job that was reserved before,
// or else a ready one.
func (m *Machine) restoreLanes() {
	first, heads := make(map[*lane]uint64), make(map[*lane]*Job)
	all := m.beginScan()
	all.pass(&m.slab, 1<<62, func(j *Job) bool {
		l := m.laneOf(j)
		if l == nil {
			return true
		}
		if id, found := first[l]; j.state == Ready && (!found || j.ID < id) {
			first[l] = j.ID
		}
		_, held := m.heldAtEnd[j.ID]
		if (j.counters[Reserves] > 0 || held) && (j.state == Delayed || j.state == Ready) && m.isStrict(l) && headBefore(j, heads[l]) {
			heads[l] = j
		}
		return true
	})
	order := slices.Collect(maps.Keys(first))
	slices.SortFunc(order, func(a, b *lane) int { return cmp.Compare(first[a], first[b]) })
	for _, l := range order {
		l.takeTurn()
	}
	for l, head := range heads {
		m.openThrottle(l.tube.name, l.name).head = head.ID
	}
	for l := range first {
		m.updateLane(l)
	}
}

// headBefore reports whether j rather than other, which may be nil, was the head of its lane.
func headBefore(j, other *Job) bool {
	if other == nil || j.state != other.state {
		return other == nil || j.state == Delayed
	}
	return j.ID < other.ID
}
