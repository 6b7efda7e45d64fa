package tube

import (
	"cmp"
	"slices"
)

// Jobs in batches: members, and jobs that run after a batch. What is due, and what is carried out then, is
// in settle.go.

// jobID is the id of a job in a sorted list.
type jobID uint64

func (id jobID) key() uint64 { return uint64(id) }

// The bits of Job.batch. A job for which it is 0 has nothing to do with batches.
const (
	isMember       uint8 = 1 << iota // its batch is in the slab
	countedPending                   // of its batch
	countedParked                    // likewise
	isHeld                           // it is delayed without a time, until the batch Metadata.After has ended
	isUnmet                          // it is parked because of that batch

	counted = countedPending | countedParked
	isAfter = isHeld | isUnmet
)

// join makes j, which is in a queue, a member of b. It is not counted yet.
func (m *members) join(j *Job, b *batched) {
	j.batch |= isMember
	*m.slab.batch(j) = b
	b.addMember(j.ID)
}

// joinByPut makes j, which was put with these tags and is in a queue, what they say.
func (m *members) joinByPut(now Instant, j *Job, tags *Tags) {
	ttl := tags.BatchTTL
	if tags.Batch != "" {
		b, _ := m.batches.openFor(now, tags.Batch, ttl)
		ttl = 0
		m.join(j, b)
		m.recount(now, j)
	}
	if tags.After == "" {
		return
	}
	b, made := m.batches.openFor(now, tags.After, ttl)
	m.addAfter(j, b)
	if r := &b.record; made || r.Verdict != BatchOpen || r.Sealed && r.Pending == 0 || r.Gone > 0 {
		m.batches.dueNow(now, b)
	}
}

// takePlace makes j, which is in a queue, what old is, which is about to be removed: a member of the same batch, and
// a job that runs after one.
func (m *members) takePlace(now Instant, j, old *Job) {
	if b := m.batchOf(old); b != nil {
		m.join(j, b)
		j.batch |= old.batch & counted
		old.batch &^= counted
		m.recount(now, j)
	}
	if after := m.metadata.of(j).After; after != "" {
		b, _ := m.batches.open(now, after)
		m.addAfter(j, b)
	}
}

// restoreInBatch makes j, which is restored and in a queue, what its metadata says.
func (m *members) restoreInBatch(now Instant, j *Job, batch string) {
	if batch != "" {
		b := m.restoredBatch(now, batch)
		m.join(j, b)
		is := m.memberIs(j)
		b.count(is, 1)
		if j.batch |= is; is == countedPending {
			b.record.Stamp++
		}
	}
	if after := m.metadata.of(j).After; after != "" {
		m.addAfter(j, m.restoredBatch(now, after))
	}
}

// restoredBatch returns a batch of which a job is restored. It has a record, or is due.
func (m *members) restoredBatch(now Instant, name string) *batched {
	b, made := m.batches.open(now, name)
	if made {
		m.batches.dueNow(now, b)
	}
	return b
}

// memberIs returns how j is to be counted.
func (m *members) memberIs(j *Job) uint8 {
	if j.state == Buried || m.Home(j) != "" {
		return countedParked
	}
	return countedPending
}

// recount counts j anew, which is in a queue and perhaps a member, after it was put or has changed.
func (m *members) recount(now Instant, j *Job) {
	if j.batch&isMember == 0 {
		return
	}
	was, is := j.batch&counted, m.memberIs(j)
	if is == was {
		return
	}
	b := m.batchOf(j)
	b.count(was, -1)
	b.count(is, 1)
	if j.batch = j.batch&^counted | is; is == countedPending {
		b.record.Stamp++
	}
	m.batches.dueIfEnded(now, b)
}

// count adds to the number of members that are counted so.
func (b *batched) count(is uint8, by int) {
	switch is {
	case countedPending:
		b.record.Pending += uint64(by)
	case countedParked:
		b.record.Parked += uint64(by)
	}
}

// leaveBatches takes j, which is in no queue and will be removed, out of its batches. done says that it is done.
func (m *members) leaveBatches(now Instant, j *Job, done bool) {
	if j.batch&isAfter != 0 {
		m.removeAfter(j)
	}
	if b := m.batchOf(j); b != nil {
		*m.slab.batch(j) = nil
		if was := j.batch & counted; was != 0 {
			b.count(was, -1)
			m.batches.countEnd(now, b, done)
		}
	}
	j.batch = 0
}

// uncount makes the removal of j no end of a member, because a new member takes its place.
func (m *members) uncount(j *Job, batch string) {
	if b := m.batchOf(j); b != nil && b.record.Name == batch {
		b.count(j.batch&counted, -1)
		j.batch &^= counted
	}
}

// unput makes neither the key of j nor the batch of which it is a member remember it, because it will be withdrawn. It returns
// its batches.
func (m *members) unput(j *Job) (batches []*batched) {
	if j.hasMetadata {
		m.loseKey(j)
	}
	if b := m.batchOf(j); b != nil {
		m.uncount(j, b.record.Name)
		batches = append(batches, b)
	}
	if j.batch&isAfter != 0 {
		batches = append(batches, m.batches.find(m.metadata.of(j).After))
	}
	return batches
}

// dropUnusedBatches removes the records of those batches that only withdrawn jobs have named.
func (m *members) dropUnusedBatches(now Instant, batches []*batched) {
	for _, b := range batches {
		if r := &b.record; r.Sealed || r.Pending+r.Parked+r.Done+r.Gone+r.AfterHeld+r.AfterFailed > 0 {
			m.batches.dueIfEnded(now, b)
		} else {
			m.batches.forget(b)
		}
	}
}

// afters returns the list in which j, which runs after b, is.
func (m *members) afters(b *batched, j *Job) *sorted[uint64, jobID] {
	all := 0
	if m.metadata.of(j).AfterAll {
		all = 1
	}
	if j.batch&isHeld != 0 {
		return &b.held[all]
	}
	return &b.parked[all]
}

// addAfter records that j runs after b. It is held, or parked because of b.
func (m *members) addAfter(j *Job, b *batched) {
	if j.state == Delayed {
		j.batch |= isHeld
		b.record.AfterHeld++
		m.tubeOf(j).waiting++
	} else {
		j.batch |= isUnmet
		b.record.AfterFailed++
	}
	m.afters(b, j).insert(jobID(j.ID))
}

// removeAfter is the reverse of addAfter.
func (m *members) removeAfter(j *Job) {
	b := m.batches.find(m.metadata.of(j).After)
	m.afters(b, j).remove(j.ID)
	if j.batch&isHeld != 0 {
		b.record.AfterHeld--
		m.tubeOf(j).waiting--
	} else {
		b.record.AfterFailed--
	}
	j.batch &^= isAfter
}

// clearAfter makes j an ordinary job, if it runs after a batch. Its time begins.
func (m *members) clearAfter(now Instant, j *Job) {
	if j.batch&isAfter != 0 {
		m.removeAfter(j)
		f := m.metadata.change(j)
		f.After, f.AfterAll = "", false
		m.startExpiry(now, j, f)
	}
}

// idRange is a range of ids. Not all of them need be members.
type idRange struct{ first, last uint64 }

// maxGap is how many ids that are no members are worth no new range.
const maxGap = 64

// addMember adds an id, nearly always the largest one.
func (b *batched) addMember(id uint64) {
	at := len(b.members)
	for at > 0 && b.members[at-1].first > id {
		at--
	}
	if at > 0 {
		if r := &b.members[at-1]; id <= r.last {
			return
		} else if at == len(b.members) && id-r.last <= maxGap {
			r.last = id
			return
		}
	}
	b.members = slices.Insert(b.members, at, idRange{id, id})
}

// visit calls each with the members of b whose ids are not below next, in their order, until it returns false. each may
// remove the job. It returns the next id, 0 if there are no more, after it has examined limit ids.
func (m *members) visit(b *batched, next uint64, limit int, each func(*Job) bool) uint64 {
	at, _ := slices.BinarySearchFunc(b.members, next, func(r idRange, id uint64) int { return cmp.Compare(r.last, id) })
	for ; at < len(b.members); at++ {
		for next = max(next, b.members[at].first); next <= b.members[at].last; {
			if limit--; limit < 0 {
				return next
			}
			j := m.Find(next)
			if next++; j != nil && m.batchOf(j) == b && !each(j) {
				return next
			}
		}
	}
	return 0
}
