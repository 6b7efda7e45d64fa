package tube

// MoveTo creates a copy of j in another tube, and removes j. j must not be reserved, and its
// body must be in memory. The new job has the same state, due time and all else, with three
// exceptions. Its counters begin at zero, see Metadata.Move. If it is
// buried, it comes after all other buried jobs of the tube. If another job of the tube has its
// key, it has no key. In the old tube the key of j stays taken as if j had been deleted.
func (m *times) MoveTo(now Instant, j *Job, to string) {
	m.replaceBy(now, j, to, m.movedMetadata(j, to), func(moved *Job) {
		switch j.state {
		case Ready:
			if moved.since = j.since; j.counters[Reserves] > 0 {
				moved.dueSince(now)
			}
			m.enqueue(moved, Ready, int64(j.pri))
		case Delayed:
			m.enqueue(moved, Delayed, j.rank)
			moved.place |= j.place & byWallTime
		case Buried:
			m.burials++
			m.enqueue(moved, Buried, m.burials)
		}
	})
}

// replaceBy creates a copy of j with this metadata in another tube, and removes j. enter puts the
// copy into a queue.
func (m *times) replaceBy(now Instant, j *Job, to string, metadata Metadata, enter func(moved *Job)) {
	p := NewJob{Tube: to, Pri: j.pri, Delay: j.delay, TTR: j.ttr, Body: m.Body(j), Buffer: m.Buffer(j)}
	if p.Buffer != nil {
		p.Buffer.Retain()
	}
	moved := m.newJob(now, p)
	moved.created = j.created
	if metadata.Key != "" || metadata.Group != "" || !metadata.zero() {
		m.setMetadata(moved, metadata)
	}
	enter(moved)
	m.takePlace(now, moved, j)
	m.journalPut(moved, p)
	m.keys.free(keyName(to, metadata.Key))
	if metadata.Checkpoint != (CheckpointRef{}) {
		m.handOverCheckpoint(j)
	}
	m.removeAs(now, j, ending{how: Moved, toTube: to, toID: moved.ID})
}

// movedMetadata returns the metadata of j after a move to another tube.
func (m *times) movedMetadata(j *Job, to string) Metadata {
	f := *m.metadata.of(j)
	f.Key, f.Group, f.Batch, f.PendingDead = m.metadata.key(j), m.groupOf(j), m.batchNameOf(j), ""
	if m.ByKey(to, f.Key) != nil {
		f.Key = ""
	}
	f.Move(m.tubeOf(j).name, to, &j.counters)
	return f
}

// A replay gives a job another chance that has failed for good: a job in a dead-letter tube goes
// back to the tube where it was exhausted, and a buried job is kicked.

// SendBack is MoveTo for a dead letter and the tube where it was exhausted. The new job is ready, and begins without the checkpoint
// unless that is to be kept.
func (m *times) SendBack(now Instant, j *Job, keepCheckpoint bool) {
	metadata := m.movedMetadata(j, m.Home(j))
	if !keepCheckpoint {
		metadata.Checkpoint = CheckpointRef{}
	}
	metadata.Parked, metadata.Progress = NotParked, ""
	m.replaceBy(now, j, metadata.FromTube, metadata, func(back *Job) {
		back.dueSince(now)
		m.enqueue(back, Ready, int64(back.pri))
	})
}
