package tube

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Jobs in batches: members, and jobs that run after a batch. What is due, and what is carried out then, is
// in settle.go.

// jobBatches are the batches of a Machine.
type jobBatches struct {
	list   sorted[string, *batched]
	dues   dues[*batched]
	recent *batched   // the one that was used last; nil if it was removed
	dirty  []*batched // those whose records the journal lacks
}

// batched is a batch.
type batched struct {
	record  JobBatch
	place   dueSlot
	dirty   bool
	members []idRange // all members have ids in them, in their order

	// The jobs that run after it: those that are held, and those that are parked because of it; each the ones with
	// after, and those with after-all.
	held, parked [2]sorted[uint64, jobID]
}

func (b *batched) key() string    { return b.record.Name }
func (b *batched) slot() *dueSlot { return &b.place }

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

// findBatch returns a batch, nil if there is none of that name.
func (m *members) findBatch(name string) *batched {
	all := &m.batches
	if all.recent == nil || all.recent.record.Name != name {
		b := all.list.find(name)
		if b == nil {
			return nil
		}
		all.recent = b
	}
	return all.recent
}

// openBatch returns a batch. It makes one if there is none of that name.
func (m *members) openBatch(now Instant, name string) (b *batched, made bool) {
	if b = m.findBatch(name); b != nil {
		return b, false
	}
	b = &batched{record: JobBatch{Name: name, Created: inMilliseconds(now), Due: Never}, place: dueSlot{due: Never}}
	m.batches.list.insert(b)
	m.setBatchDue(b, b.deadline())
	m.batchChanged(b)
	return b, true
}

// openFor is openBatch for a put that says what the TTL is, unless that is 0.
func (m *members) openFor(now Instant, name string, ttl time.Duration) (b *batched, made bool) {
	b, made = m.openBatch(now, name)
	if ttl == 0 || b.record.TTL != 0 {
		return b, made
	}
	b.record.TTL = ttl
	if m.batchChanged(b); !b.record.Sealed && b.place.due > now { // what is due already stays so
		m.setBatchDue(b, b.deadline())
	}
	return b, made
}

// deadline returns by when b must be sealed.
func (b *batched) deadline() Instant {
	return b.record.Created.Plus(cmp.Or(b.record.TTL, DefaultBatchTTL))
}

// isSealed reports whether a batch gets no more members.
func (m *members) isSealed(name string) bool {
	b := m.findBatch(name)
	return b != nil && b.record.Sealed
}

// batchOf returns the batch of which j is a member, nil if it is of none.
func (m *jobs) batchOf(j *Job) *batched {
	if j.batch&isMember == 0 {
		return nil
	}
	return *m.slab.batch(j)
}

// batchNameOf returns the name of the batch of which j is a member, "" if it is of none.
func (m *jobs) batchNameOf(j *Job) string {
	if b := m.batchOf(j); b != nil {
		return b.record.Name
	}
	return ""
}

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
		b, _ := m.openFor(now, tags.Batch, ttl)
		ttl = 0
		m.join(j, b)
		m.recount(now, j)
	}
	if tags.After == "" {
		return
	}
	b, made := m.openFor(now, tags.After, ttl)
	m.addAfter(j, b)
	if r := &b.record; made || r.Verdict != BatchOpen || r.Sealed && r.Pending == 0 || r.Gone > 0 {
		m.batchDueNow(now, b)
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
	if after := m.metadataOf(j).After; after != "" {
		b, _ := m.openBatch(now, after)
		m.addAfter(j, b)
	}
}

// restoreInBatch makes j, which is restored and in a queue, what its metadata says.
func (m *members) restoreInBatch(now Instant, j *Job, batch string) {
	if batch != "" {
		b := m.restoredBatch(now, batch)
		m.join(j, b)
		is := m.memberIs(j)
		m.countMember(b, is, 1)
		if j.batch |= is; is == countedPending {
			b.record.Stamp++
		}
	}
	if after := m.metadataOf(j).After; after != "" {
		m.addAfter(j, m.restoredBatch(now, after))
	}
}

// restoredBatch returns a batch of which a job is restored. It has a record, or is due.
func (m *members) restoredBatch(now Instant, name string) *batched {
	b, made := m.openBatch(now, name)
	if made {
		m.batchDueNow(now, b)
	}
	return b
}

// memberIs returns how j is to be counted.
func (m *jobs) memberIs(j *Job) uint8 {
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
	m.countMember(b, was, -1)
	m.countMember(b, is, 1)
	if j.batch = j.batch&^counted | is; is == countedPending {
		b.record.Stamp++
	}
	m.dueIfEnded(now, b)
}

func (m *members) countMember(b *batched, is uint8, by int) {
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
			m.countMember(b, was, -1)
			m.countEnd(now, b, done)
		}
	}
	j.batch = 0
}

// countEnd counts a member of b that has ended.
func (m *members) countEnd(now Instant, b *batched, done bool) {
	m.batchChanged(b)
	if done {
		b.record.Done++
	} else if b.record.Gone++; b.record.Gone == 1 {
		m.batchDueNow(now, b)
	}
	m.dueIfEnded(now, b)
}

// uncount makes the removal of j no end of a member, because a new member takes its place.
func (m *members) uncount(j *Job, batch string) {
	if b := m.batchOf(j); b != nil && b.record.Name == batch {
		m.countMember(b, j.batch&counted, -1)
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
		batches = append(batches, m.findBatch(m.metadataOf(j).After))
	}
	return batches
}

// dropUnusedBatches removes the records of those batches that only withdrawn jobs have named.
func (m *members) dropUnusedBatches(now Instant, batches []*batched) {
	for _, b := range batches {
		if r := &b.record; r.Sealed || r.Pending+r.Parked+r.Done+r.Gone+r.AfterHeld+r.AfterFailed > 0 {
			m.dueIfEnded(now, b)
		} else {
			m.forgetBatch(b)
		}
	}
}

// holdAfter puts j, which is in no queue, where it waits for a batch. It becomes due after the wait when that ends.
func (m *queues) holdAfter(j *Job, wait time.Duration) {
	j.delay = wholeSeconds(wait)
	m.enqueue(j, Delayed, int64(Never))
}

// afters returns the list in which j, which runs after b, is.
func (m *members) afters(b *batched, j *Job) *sorted[uint64, jobID] {
	all := 0
	if m.metadataOf(j).AfterAll {
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
	b := m.findBatch(m.metadataOf(j).After)
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
		f := m.changeMetadata(j)
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

// ListMembers returns up to count members of a batch that exist, at most MaxListed, starting at a cursor, and the cursor of the
// next ones; "" if there are no more. It examines no more than limit ids: a page can be shorter, or empty.
func (m *members) ListMembers(now Instant, name, cursor string, count, limit int) (jobs []JobStats, next string) {
	b, count := m.findBatch(name), min(count, MaxListed)
	from, err := uint64(0), error(nil)
	if cursor != "" {
		from, err = strconv.ParseUint(cursor, 10, 64)
	}
	if b == nil || err != nil || count <= 0 {
		return nil, ""
	}
	from = m.visit(b, from, limit, func(j *Job) bool {
		s := m.jobStats(now, j)
		s.Size = int(j.size)
		jobs = append(jobs, s)
		return len(jobs) < count
	})
	if from != 0 {
		next = strconv.FormatUint(from, 10)
	}
	return jobs, next
}
