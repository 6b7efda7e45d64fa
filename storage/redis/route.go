package redis

import (
	"slices"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// With several partitions, the batch of a connection is a trip. It consists of legs: some are
// under way at the same time, then the next ones when these have answered. The result is as if
// the operations were carried out in their order, although other connections can see changes
// between them.

// trip is a batch on its way through the partitions.
type trip struct {
	store *Store
	batch *storage.Batch
	since time.Time
	next  int // operation that is not under way yet

	sealed bool // the next operation is a CancelBatch, and its batch is sealed; or a SealBatch that is done in all partitions but one

	first int          // first operation of the legs
	legs  []*leg       // under way
	left  atomic.Int32 // how many of these are not answered
}

// leg is the part of a trip in one partition.
type leg struct {
	unit      unit
	partition int
	ops       []storage.Op // of the batch, or copies
	from      []int        // indexes of the operations that they copy; nil if they are those of the batch
}

// unitsByPartition collects legs of several trips, so that those to the same partition get into
// the same call.
type unitsByPartition [][]*unit

// route starts a trip for each batch.
func (s *Store) route(batches []*storage.Batch) {
	now, out := time.Now(), make(unitsByPartition, len(s.parts))
	for _, b := range batches {
		t := &trip{store: s, batch: b, since: now}
		t.advance(out)
	}
	s.send(out)
}

// send submits what was collected.
func (s *Store) send(out unitsByPartition) {
	for at, units := range out {
		if len(units) > 0 {
			s.parts[at].submitOrFail(nil, units...)
		}
	}
}

// advance starts the next legs, or the search for a job. At the end it completes the batch.
func (t *trip) advance(out unitsByPartition) {
	for t.next < len(t.batch.Ops) {
		op := &t.batch.Ops[t.next]
		at := partitionOfOp(op, len(t.store.parts))
		t.first = t.next
		switch {
		case t.store.mayWait(op, at):
			t.next++
			op.Answer = storage.Answer{NotFound: true, Soon: t.store.soon(op.Holder, several)}
			continue
		case at == several && op.Kind == storage.Take:
			t.next += searchedAlike(t.batch.Ops[t.first:])
			newSearch(t, t.batch.Ops[t.first:t.next]).nextPass(out)
			return
		case op.Kind == storage.MoveJobs:
			t.next++
			if m := newMoving(t, op); m != nil {
				out[m.from.number] = append(out[m.from.number], m.part())
				return
			}
			continue
		case at == several && op.Kind == storage.CancelBatch && !t.sealed:
			t.sealFirst(op)
			return
		case at == several && op.Kind == storage.SealBatch && !t.sealed:
			t.sealed, t.legs = true, t.sealOthers(op)
		case at == several && op.Kind == storage.SealBatch:
			t.sealed, t.legs = false, t.sealHome(op)
		case at == several && op.Kind != storage.Ref:
			t.next++
			t.sealed = false
			t.legs = t.everywhere(op)
		default:
			t.legs = t.nextLegs()
		}
		if t.dispatchLegs(out) {
			return
		}
	}
	t.batch.Done()
}

// mayWait returns whether an operation can just as well wait until a partition works again: a
// take of a waiting client. The takes of the dispatcher, which takes for all waiters, are not
// held up.
func (s *Store) mayWait(op *storage.Op, at int) bool {
	return at != several && op.Kind == storage.Take && op.Wait && s.parts[at].failing.Load()
}

// dispatchLegs submits the legs, and returns whether there is an answer to wait for.
func (t *trip) dispatchLegs(out unitsByPartition) bool {
	t.legs = slices.DeleteFunc(t.legs, func(l *leg) bool {
		leave := t.store.parts[l.partition].failing.Load() && l.mayFollow()
		if leave {
			l.detach()
			out[l.partition] = append(out[l.partition], &l.unit)
		}
		return leave
	})
	t.left.Store(int32(len(t.legs)))
	for _, l := range t.legs {
		l.unit = unit{batch: &storage.Batch{Ops: l.ops, Done: t.arrive}, since: t.since}
		out[l.partition] = append(out[l.partition], &l.unit)
	}
	return len(t.legs) > 0
}

// mayFollow returns whether the trip can continue before the leg is done, in a partition that
// fails: if it only counts connections that come and go, which is repeated whatever happens to
// it. So connections can come and go while the partitions of other tubes fail.
func (l *leg) mayFollow() bool {
	return !slices.ContainsFunc(l.ops, func(op storage.Op) bool {
		return op.Kind != storage.Ref && op.Kind != storage.ReleaseAll
	})
}

// detach answers the operations of a leg, and carries out copies of them.
func (l *leg) detach() {
	l.unit = unit{batch: &storage.Batch{Ops: cloneOps(l.ops), Done: func() {}}}
	for i := range l.ops {
		l.ops[i].Answer = storage.Answer{}
	}
}

// arrive is called when a leg has been answered.
func (t *trip) arrive() {
	if t.left.Add(-1) > 0 {
		return
	}
	for _, l := range t.legs {
		t.collect(l)
	}
	t.findSoon()
	t.legs = nil
	t.goOn()
}

// goOn starts what comes next.
func (t *trip) goOn() {
	out := make(unitsByPartition, len(t.store.parts))
	t.advance(out)
	t.store.send(out)
}

// collect copies the answers of a leg.
func (t *trip) collect(l *leg) {
	for i := range l.from {
		merge(&t.batch.Ops[l.from[i]], &l.ops[i].Answer)
	}
}

// findSoon includes what the holders have in other partitions in the answers of takes that have
// found nothing, but not what they got there by later operations, which were under way at the
// same time.
func (t *trip) findSoon() {
	var later map[uint64]bool
	for i := t.next - 1; i >= t.first; i-- {
		op := &t.batch.Ops[i]
		takes := op.Kind == storage.Take
		reserves := takes || op.Kind == storage.Move && op.Move.Brings()
		switch {
		case takes && op.Answer.NotFound:
			at := partitionOfOp(op, len(t.store.parts))
			op.Answer.Soon = min(op.Answer.Soon, t.store.soonWithout(op.Holder, at, later))
		case reserves && op.Answer.ID != 0 && len(t.legs) > 1:
			if later == nil {
				later = make(map[uint64]bool)
			}
			later[op.Answer.ID] = true
		}
	}
}

// merge adds the answer of one partition to that of an operation.
func merge(op *storage.Op, a *storage.Answer) {
	whole := &op.Answer
	switch {
	case op.Kind == storage.GetRecord && op.Records == tube.Schedules || op.Kind == storage.DeleteSchedule:
		mergeOne(whole, a)
	case op.Kind == storage.DueRecords:
		mergeDue(whole, a)
	case whole.Err != nil:
	case a.Err != nil:
		*whole = storage.Answer{Err: a.Err, Count: a.Count}
	case op.Kind == storage.Stats && whole.Stats != nil:
		addTotals(&whole.Stats.Totals, &a.Stats.Totals)
		whole.Stats.Instances = max(whole.Stats.Instances, a.Stats.Instances)
		whole.Stats.Ended += a.Stats.Ended
		whole.Stats.EndedBytes += a.Stats.EndedBytes
		whole.Stats.Hung += a.Stats.Hung
		whole.Stats.HeldKeys += a.Stats.HeldKeys
		whole.Stats.Checkpoints.Jobs += a.Stats.Checkpoints.Jobs
		whole.Stats.Checkpoints.Bytes += a.Stats.Checkpoints.Bytes
	case op.Kind == storage.Tubes:
		whole.Names = append(whole.Names, a.Names...)
	case op.Kind == storage.Policies:
		whole.Names = append(whole.Names, a.Names...)
		slices.Sort(whole.Names)
		whole.Names = slices.Compact(whole.Names) // a pattern has its policy in every partition
	case op.Kind == storage.FindKey:
		mergeFound(whole, a)
	case op.Kind == storage.ListHung:
		mergeFound(whole, a)
		whole.NotFound = false
		whole.Count += a.Count
	case op.Kind == storage.ListRecords:
		mergePage(op, a)
	case op.Kind == storage.ListEnded:
		mergeEnded(op, a)
	case op.Kind == storage.GetRecord, op.Kind == storage.CancelBatch:
		mergeParts(whole, a)
	default:
		*whole = *a
	}
}

// mergeFound adds the jobs that one partition has found.
func mergeFound(whole, a *storage.Answer) {
	if whole.Result == nil {
		whole.Result, whole.NotFound = new(storage.Result), true
	}
	whole.Result.Jobs = append(whole.Result.Jobs, a.Result.Jobs...)
	sortByID(whole.Result.Jobs)
	whole.NotFound = len(whole.Result.Jobs) == 0
}

func addTotals(to, t *tube.Totals) {
	to.Urgent += t.Urgent
	to.Ready += t.Ready
	to.Reserved += t.Reserved
	to.Delayed += t.Delayed
	to.Buried += t.Buried
	to.Jobs += t.Jobs
	to.Timeouts += t.Timeouts
	to.Tubes += t.Tubes
}

// soon returns how long it is until a holder must be answered DEADLINE_SOON for what it has in
// partitions other than that one.
func (s *Store) soon(h tube.Holder, but int) time.Duration { return s.soonWithout(h, but, nil) }

// soonWithout is soon without some of its jobs.
func (s *Store) soonWithout(h tube.Holder, but int, without map[uint64]bool) time.Duration {
	soon := storage.Forever
	for at, p := range s.parts {
		if at != but {
			soon = min(soon, p.holdings.soonWithout(h, p.clock.now(), without))
		}
	}
	return soon
}

// everywhere returns the legs of an operation that concerns all partitions, or those where its
// holder has something, or those that do not fail.
func (t *trip) everywhere(op *storage.Op) (legs []*leg) {
	op.Answer = startOf(op)
	for at, p := range t.store.parts {
		if op.Kind != storage.ReleaseAll || p.holdings.holdsAny(op.Holder) {
			legs = append(legs, &leg{partition: at, ops: []storage.Op{*op}, from: []int{t.next - 1}})
		}
	}
	if op.Kind == storage.DueRecords {
		legs = t.working(t.reported(op.Records, legs))
	}
	return legs
}

// reported returns the legs to partitions that have reported something due since they were asked last, or all if none
// has. A report that is lost so, or of which not all was returned, comes again with a tick.
func (t *trip) reported(kind tube.RecordKind, legs []*leg) []*leg {
	var reported []*leg
	for _, l := range legs {
		if t.store.parts[l.partition].background.recordsDue[kind].Swap(false) {
			reported = append(reported, l)
		}
	}
	if len(reported) == 0 {
		return legs
	}
	return reported
}

// startOf returns the answer of an operation to which those of all partitions are added.
func startOf(op *storage.Op) storage.Answer {
	switch op.Kind {
	case storage.GetRecord, storage.DeleteSchedule, storage.CancelBatch:
		return storage.Answer{NotFound: true}
	}
	return storage.Answer{}
}

// working returns the legs to partitions that do not fail, or all if there are none.
func (t *trip) working(legs []*leg) []*leg {
	var working []*leg
	for _, l := range legs {
		if !t.store.parts[l.partition].failing.Load() {
			working = append(working, l)
		}
	}
	if len(working) == 0 {
		return legs
	}
	return working
}

// nextLegs returns the legs of the next operations that can be under way together: at least the
// first one, even if its partition has begun to fail since it was examined, and no other that
// may wait.
func (t *trip) nextLegs() []*leg {
	ops, first := t.batch.Ops, t.next
	together := newStretch()
	for t.next < len(ops) {
		op := &ops[t.next]
		at := partitionOfOp(op, len(t.store.parts))
		if t.next > first && t.store.mayWait(op, at) || !together.accept(op, at) {
			break
		}
		t.next++
	}
	if together.same {
		return []*leg{{partition: together.first, ops: ops[first:t.next]}}
	}
	var legs []*leg
	for i := first; i < t.next; i++ {
		legs = t.divide(legs, i)
	}
	return legs
}

// divide adds an operation to the legs of its partitions.
func (t *trip) divide(legs []*leg, i int) []*leg {
	op, of := &t.batch.Ops[i], len(t.store.parts)
	op.Answer = storage.Answer{}
	if op.Kind != storage.Ref {
		l := legTo(&legs, partitionOfOp(op, of))
		l.ops, l.from = append(l.ops, *op), append(l.from, i)
		return legs
	}
	for _, name := range op.Tubes {
		l := legTo(&legs, schema.PartitionOf(name, of))
		if n := len(l.from); n > 0 && l.from[n-1] == i {
			l.ops[n-1].Tubes = append(l.ops[n-1].Tubes, name)
			continue
		}
		part := *op
		part.Tubes = []string{name}
		l.ops, l.from = append(l.ops, part), append(l.from, i)
	}
	return legs
}

// legTo returns the leg to a partition, a new one if necessary.
func legTo(legs *[]*leg, at int) *leg {
	for _, l := range *legs {
		if l.partition == at {
			return l
		}
	}
	l := &leg{partition: at}
	*legs = append(*legs, l)
	return l
}

// stretch is consecutive operations that can be under way together: those of one partition,
// together with refs of tubes in any partition, which are independent of everything elsewhere;
// or only reads; or only takes; or only puts of schedules.
type stretch struct {
	first  int     // partition of the first operation; several if there is none
	same   bool    // all are in that one
	where  int     // partition of the first operation that is no ref
	class  opClass // of those that are no refs
	spread bool    // some of these are in other partitions
}

// opClass is what operations must have in common to be spread over partitions.
type opClass int

const (
	writes opClass = iota // or mixed
	reads
	takes
	scheduledPuts
)

func newStretch() *stretch { return &stretch{first: several, same: true, where: several} }

// accept adds an operation on a partition, if it can be in the stretch.
func (s *stretch) accept(op *storage.Op, at int) bool {
	switch class := classOf(op); {
	case op.Kind == storage.Ref:
	case at == several:
		return false
	case s.where == several:
		s.where, s.class = at, class
	case s.class == class && class != writes:
		s.spread = s.spread || at != s.where
	case s.spread || at != s.where:
		return false
	default:
		s.class = writes
	}
	if s.first == several {
		s.first = at
	}
	s.same = s.same && at != several && at == s.first
	return true
}

func classOf(op *storage.Op) opClass {
	switch op.Kind {
	case storage.Peek, storage.GetCheckpoint, storage.PeekHead, storage.PeekKey, storage.JobStats, storage.TubeStats, storage.GetPolicy, storage.WaitEnded:
		return reads
	case storage.Take:
		return takes
	case storage.SetSchedule, storage.PutScheduled:
		return scheduledPuts
	}
	return writes
}
