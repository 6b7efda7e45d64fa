package redis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// Operations on batches of jobs that not all named records have, both encoding and decoding: see lua/jobbatches.

const (
	// maxMembers is how many members of a batch one call lists at most, and maxSettled for how many jobs one call
	// carries out a settlement.
	maxMembers = 250
	maxSettled = 250
)

// batchesText returns what the argument batches of a put with tags is, see lua/tagged/put.lua.
func batchesText(t *tube.Tags) string {
	if t.Batch == "" && t.After == "" {
		return ""
	}
	return fmt.Sprintf("%d;%s;%d:%s%s", t.BatchTTL.Milliseconds(), boolArg(t.AfterAll), len(t.Batch), t.Batch, t.After)
}

// encodeJobBatches appends an operation on batches, or the next part of one.
func (p *partition) encodeJobBatches(c *call, u *unit, op *storage.Op) {
	switch op.Kind {
	case storage.SealBatch:
		c.words("job-batches", "seal", op.Args.Name, boolArg(p.number == homeOf(op.Args.Name, p.of)))
		c.expect((*partition).readFound, op)
	case storage.ListMembers:
		p.encodeListMembers(c, u, op)
	case storage.CancelBatch:
		c.words("job-batches", "cancel", op.Args.Name, u.many.last, c.stepSize(&p.stepSizes.flush))
		c.expect(readCancelBatch(u), op)
	case storage.SettleBatch:
		encodeSettleBatch(c, u, op)
	}
}

// homeOf returns the partition of a batch that is sealed last, and in which it is examined then. Where the members are
// does not depend on it.
func homeOf(batch string, of int) int { return schema.PartitionOf(batch, of) }

// readJobBatch reads the record of a batch, with the first after-jobs if they are in the reply. It returns nil if the record is
// broken.
func (p *partition) readJobBatch(r *reply, name string, withAfter bool) tube.NamedRecord {
	b, err := schema.ParseJobBatch(name, r.text())
	held, failed := r.count(), r.count()
	var after []tube.JobStats
	if withAfter {
		after = r.readJobs()
	}
	if err != nil {
		return nil
	}
	b.Part, b.AfterHeld, b.AfterFailed, b.After = p.number, held, failed, after
	return b
}

// readJobs reads jobs with their sizes.
func (r *reply) readJobs() (jobs []tube.JobStats) {
	for range r.int64() {
		id, size := r.count(), r.int()
		if s := r.jobStats(id); s != nil {
			s.Size = size
			jobs = append(jobs, *s)
		}
	}
	return jobs
}

// membersCursor is where a page of the members of a batch begins: in a partition, at a position of its index, as
// the script has it.
type membersCursor struct {
	part     int
	position string
}

// parseMembersCursor reads a cursor, 'PART.PLACE.OFFSET'; "" is the beginning, and so is an invalid one.
func parseMembersCursor(text string) (c membersCursor) {
	words := strings.Split(text, ".")
	if len(words) != 3 {
		return c
	}
	var numbers [3]uint64
	for i, word := range words {
		n, err := strconv.ParseUint(word, 10, 48)
		if err != nil {
			return c
		}
		numbers[i] = n
	}
	return membersCursor{int(numbers[0]), fmt.Sprintf("%d %d", numbers[1], numbers[2])}
}

// text returns the cursor as a text.
func (c membersCursor) text() string {
	return fmt.Sprintf("%d.%s", c.part, strings.ReplaceAll(c.position, " ", "."))
}

// encodeListMembers appends a part of a list of members. A page has members of one partition only.
func (p *partition) encodeListMembers(c *call, u *unit, op *storage.Op) {
	m, count := &u.many, countOf(op)
	if count == 0 {
		op.Answer.Result = &storage.Result{}
		return
	}
	if !m.begun {
		m.begun, m.last = true, parseMembersCursor(op.Args.Cursor).position
	}
	limit := min(count-len(m.jobs), maxMembers, c.stepSize(&p.stepSizes.list))
	c.words("job-batches", "members", op.Args.Name, m.last, limit)
	c.expect(readListMembers(u, count), op)
}

// readListMembers reads a part of a list of members, of which a page has that many.
func readListMembers(u *unit, count int) func(*partition, *reply, []*storage.Op) {
	return func(p *partition, r *reply, ops []*storage.Op) {
		m := &u.many
		m.last = r.text()
		m.jobs = append(m.jobs, r.readJobs()...)
		if m.last != "" && len(m.jobs) < count {
			u.againLater()
			return
		}
		result := &storage.Result{Jobs: m.jobs}
		if m.last != "" {
			result.Cursor = membersCursor{p.number, m.last}.text()
		} else if p.number+1 < p.of {
			result.Cursor = membersCursor{p.number + 1, "0 0"}.text()
		}
		ops[0].Answer.Result = result
		u.many = manyProgress{}
	}
}

// readCancelBatch reads the answer to a part of CancelBatch.
func readCancelBatch(u *unit) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		more := ""
		if found := r.found(); found {
			u.partial.add(ops[0], r.int())
			more = r.text()
		} else if u.many.last == "" {
			ops[0].Answer.NotFound = true
		}
		u.many.last = more
		u.goOnFlushing(more != "", ops[0])
	}
}

// encodeSettleBatch appends a part of a settlement.
func encodeSettleBatch(c *call, u *unit, op *storage.Op) {
	s := op.Args.Settle
	limit := min(int(op.MaxJobs)-u.partial.jobs, maxSettled)
	c.words("job-batches", "settle", op.Args.Name, strconv.FormatUint(s.Stamp, 10), int(s.Verdict), schema.DueText(s.Due), boolArg(s.Forget),
		fateWord(s.Verdict.Fate(false)), fateWord(s.Verdict.Fate(true)), limit,
		strconv.FormatUint(s.Pending, 10), strconv.FormatUint(s.Parked, 10), strconv.FormatUint(s.Gone, 10), s.TTL.Milliseconds())
	c.expect(readSettleBatch(u, limit), op)
}

// fateWord returns the name of a fate in the script.
func fateWord(f tube.Fate) string {
	return [...]string{tube.FateHeld: "held", tube.FateRun: "run", tube.FateParkFailed: "failed", tube.FateParkUnsealed: "unsealed"}[f]
}

// readSettleBatch reads the answer to a part of a settlement. If a later part is not possible any more, the record
// is due.
func readSettleBatch(u *unit, limit int) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		op, n := ops[0], 0
		if r.found() {
			n = r.int()
		} else if u.partial.op != op {
			op.Answer.NotFound = true
		}
		u.partial.add(op, n)
		u.goOnFlushing(n == limit && n > 0 && u.partial.jobs < int(op.MaxJobs), op)
	}
}

// sealOthers returns the legs of a SealBatch that come first: to all partitions but the home of the batch.
func (t *trip) sealOthers(op *storage.Op) []*leg {
	t.next++
	legs := t.everywhere(op)
	t.next--
	home := homeOf(op.Args.Name, len(t.store.parts))
	return slices.Delete(legs, home, home+1)
}

// sealHome returns the leg that comes last, none if one of those has failed.
func (t *trip) sealHome(op *storage.Op) []*leg {
	t.next++
	if op.Answer.Err != nil {
		return nil
	}
	return []*leg{{partition: homeOf(op.Args.Name, len(t.store.parts)), ops: []storage.Op{*op}, from: []int{t.next - 1}}}
}

// sealFirst seals the batch of a CancelBatch in all partitions, if there is one, before its members are removed
// anywhere.
func (t *trip) sealFirst(op *storage.Op) {
	get := &storage.Batch{Ops: []storage.Op{{Kind: storage.GetRecord, Records: tube.JobBatches, Args: op.Args}}}
	seal := &storage.Batch{Ops: []storage.Op{{Kind: storage.SealBatch, Args: op.Args}}}
	end := func(a storage.Answer) {
		op.Answer = storage.Answer{NotFound: a.NotFound, Err: a.Err}
		if t.sealed = !a.NotFound && a.Err == nil; !t.sealed {
			t.next++
		}
		t.goOn()
	}
	seal.Done = func() { end(seal.Ops[0].Answer) }
	get.Done = func() {
		if a := get.Ops[0].Answer; a.NotFound || a.Err != nil {
			end(a)
			return
		}
		t.store.route([]*storage.Batch{seal})
	}
	t.store.route([]*storage.Batch{get})
}
