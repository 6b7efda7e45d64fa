package tube

import (
	"cmp"
	"time"
)

// batches are the batches of a Machine.
type batches struct {
	named[*batched]
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

func (b *batched) listed(of *base) NamedRecord    { return b.copyFor(of) }
func (b *batched) handedOut(of *base) NamedRecord { return b.copyFor(of) }

// copyFor returns the record of b for others: its instants are wall times.
func (b *batched) copyFor(of *base) *JobBatch {
	r := b.record
	r.Created, r.Since, r.Due = of.Wall(r.Created), of.Wall(r.Since), of.Wall(r.Due)
	return &r
}

// lists returns the lists of jobs that run after b.
func (b *batched) lists() [4]*sorted[uint64, jobID] {
	return [4]*sorted[uint64, jobID]{&b.held[0], &b.held[1], &b.parked[0], &b.parked[1]}
}

// find returns a batch, nil if there is none of that name.
func (all *batches) find(name string) *batched {
	if all.recent == nil || all.recent.record.Name != name {
		b := all.list.find(name)
		if b == nil {
			return nil
		}
		all.recent = b
	}
	return all.recent
}

// open returns a batch. It makes one if there is none of that name.
func (all *batches) open(now Instant, name string) (b *batched, made bool) {
	if b = all.find(name); b != nil {
		return b, false
	}
	b = &batched{record: JobBatch{Name: name, Created: inMilliseconds(now), Due: Never}, place: dueSlot{due: Never}}
	all.list.insert(b)
	all.setDue(b, b.deadline())
	all.changed(b)
	return b, true
}

// openFor is open for a put that says what the TTL is, unless that is 0.
func (all *batches) openFor(now Instant, name string, ttl time.Duration) (b *batched, made bool) {
	b, made = all.open(now, name)
	if ttl == 0 || b.record.TTL != 0 {
		return b, made
	}
	b.record.TTL = ttl
	if all.changed(b); !b.record.Sealed && b.place.due > now { // what is due already stays so
		all.setDue(b, b.deadline())
	}
	return b, made
}

// deadline returns by when b must be sealed.
func (b *batched) deadline() Instant {
	return b.record.Created.Plus(cmp.Or(b.record.TTL, DefaultBatchTTL))
}

// isSealed reports whether a batch gets no more members.
func (all *batches) isSealed(name string) bool {
	b := all.find(name)
	return b != nil && b.record.Sealed
}

// SealBatch says that a batch, which need not exist, gets no more members.
func (all *batches) SealBatch(now Instant, name string) {
	b, _ := all.open(now, name)
	all.seal(now, b)
	all.report()
}

func (all *batches) seal(now Instant, b *batched) {
	if !b.record.Sealed {
		b.record.Sealed = true
		b.record.Stamp++
		all.changed(b)
		all.dueNow(now, b)
	}
}

// setDue sets when b is due. Its claim ends.
func (all *batches) setDue(b *batched, at Instant) {
	b.record.Due, b.place.due = at, at
	all.dues.queue(b)
	all.rearm()
}

// dueNow makes b due now, if it is not due yet or claimed.
func (all *batches) dueNow(now Instant, b *batched) {
	if b.record.Due > now || b.place.claimed != 0 {
		all.setDue(b, min(b.record.Due, now))
	}
}

// dueIfEnded makes b due now if no member is pending and none will be, as far as is known here.
func (all *batches) dueIfEnded(now Instant, b *batched) {
	if b.record.Sealed && b.record.Pending == 0 {
		all.dueNow(now, b)
	}
}

// changed records that the journal lacks the record of b, until report.
func (all *batches) changed(b *batched) {
	if !b.dirty {
		b.dirty = true
		all.dirty = append(all.dirty, b)
	}
}

// report reports the records that have changed to the journal. It is called after the changes of jobs that have
// caused that: the journal can split the changes before a put, and these must stay together.
func (all *batches) report() {
	if len(all.dirty) == 0 {
		return
	}
	for i, b := range all.dirty {
		all.dirty[i] = nil
		if b.dirty && all.of.journal != nil {
			all.of.journal.RecordSet(JobBatches, b.record.Name, b.copyFor(all.of))
		}
		b.dirty = false
	}
	all.dirty = all.dirty[:0]
}

// forget removes the record of b, which has neither members nor after-jobs.
func (all *batches) forget(b *batched) {
	name := b.record.Name
	all.list.remove(name)
	all.dues.unqueue(b)
	all.recent, b.dirty = nil, false
	all.rearm()
	if all.of.journal != nil {
		all.of.journal.RecordSet(JobBatches, name, nil)
	}
}

// RestoreBatch brings back what survives of a batch, of which there must be none yet. It comes before the jobs. The batch is due: what
// was to be done about it need not survive.
func (all *batches) RestoreBatch(r JobBatch) {
	b := &batched{record: JobBatch{
		Name: r.Name, Created: r.Created, TTL: r.TTL, Sealed: r.Sealed, Done: r.Done, Gone: r.Gone, Verdict: r.Verdict, Since: r.Since,
	}}
	if r.Sealed {
		b.record.Stamp = 1
	}
	all.list.insert(b)
	all.dues.queue(b)
	all.rearm()
}

// countEnd counts a member of b that has ended.
func (all *batches) countEnd(now Instant, b *batched, done bool) {
	all.changed(b)
	if done {
		b.record.Done++
	} else if b.record.Gone++; b.record.Gone == 1 {
		all.dueNow(now, b)
	}
	all.dueIfEnded(now, b)
}
