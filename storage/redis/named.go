package redis

import (
	"cmp"
	"slices"
	"strings"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// Operations on named records of any kind, both encoding and decoding: see lua/named.

// maxDue is how many records that are due one call returns.
const maxDue = 250

// encodeNamed appends an operation on named records.
func (p *partition) encodeNamed(c *call, op *storage.Op) {
	word := schema.NamedKinds[op.Records].Records
	switch op.Kind {
	case storage.GetRecord:
		c.words(word, "get", op.Args.Name)
		c.expect((*partition).readGetRecord, op)
	case storage.ListRecords:
		p.encodeListRecords(c, word, op)
	case storage.DueRecords:
		c.words(word, "due", p.mostDue(op))
		c.expect((*partition).readDueRecords, op)
	}
}

// encodeListRecords appends a list of records. The cursor is the name of the last one of the page before.
func (p *partition) encodeListRecords(c *call, word string, op *storage.Op) {
	count, cursor := countOf(op), ""
	if count == 0 {
		op.Answer.Result = &storage.Result{Parts: p.of}
		return
	}
	if op.Args != nil {
		cursor = op.Args.Cursor
	}
	c.words(word, "list", count, cursor)
	c.expect((*partition).readListRecords, op)
}

// mostDue returns how many records that are due a partition returns: few of several partitions, if each of them is then read from
// all.
func (p *partition) mostDue(op *storage.Op) int {
	most := int(min(op.MaxJobs, maxDue))
	if op.Records == tube.JobBatches {
		most = min(most, max(int(op.MaxJobs)/p.of, 4))
	}
	return most
}

// readRecord reads a record from the answer to op; nil if it is broken: only fsck reports that.
func (p *partition) readRecord(r *reply, op *storage.Op, name string) tube.NamedRecord {
	if op.Records == tube.JobBatches {
		return p.readJobBatch(r, name, op.Kind == storage.GetRecord)
	}
	return r.readSchedule(name, op.Kind != storage.ListRecords)
}

// readRecords reads how many records there are, and those. It also returns the name of the last one.
func (p *partition) readRecords(r *reply, op *storage.Op) (records []tube.NamedRecord, last string) {
	for range r.int64() {
		last = r.text()
		if record := p.readRecord(r, op, last); record != nil {
			records = append(records, record)
		}
	}
	return records, last
}

func (p *partition) readGetRecord(r *reply, ops []*storage.Op) {
	op := ops[0]
	op.Answer.Result = &storage.Result{Now: r.instant(), Parts: p.of}
	op.Answer.NotFound = true
	if !r.found() {
		return
	}
	if record := p.readRecord(r, op, op.Args.Name); record != nil {
		op.Answer.NotFound, op.Answer.Result.Records = false, []tube.NamedRecord{record}
	}
}

func (p *partition) readListRecords(r *reply, ops []*storage.Op) {
	result := &storage.Result{Now: r.instant(), Parts: p.of}
	more, last := r.found(), ""
	if result.Records, last = p.readRecords(r, ops[0]); more {
		result.Cursor = last
	}
	ops[0].Answer.Result = result
}

func (p *partition) readDueRecords(r *reply, ops []*storage.Op) {
	result := &storage.Result{Now: r.instant()}
	result.Records, _ = p.readRecords(r, ops[0])
	ops[0].Answer.Result = result
}

// instant reads a time in ms.
func (r *reply) instant() tube.Instant { return tube.Instant(r.ms()) }

// Answers of several partitions are merged.

// mergeOne adds the answer of one partition about a record that usually only one of them has: others can fail.
func mergeOne(whole, a *storage.Answer) {
	switch found := a.Err == nil && !a.NotFound; {
	case whole.Err == nil && !whole.NotFound:
		if found && whole.Result != nil {
			addRecords(whole.Result, a.Result)
		}
	case found:
		*whole = *a
	case a.Err != nil && whole.Err == nil:
		*whole = storage.Answer{Err: a.Err}
	case whole.Err == nil:
		whole.Result = a.Result // has the time
	}
}

// mergeParts adds the answer of one partition about a record of which each can have a part.
func mergeParts(whole, a *storage.Answer) {
	if whole.Result == nil {
		whole.Result = &storage.Result{}
	}
	whole.NotFound = whole.NotFound && a.NotFound
	whole.Count += a.Count
	if a.Result != nil {
		addRecords(whole.Result, a.Result)
	}
}

// mergeDue adds the records of one partition that are due, the earliest first. Others can fail.
func mergeDue(whole, a *storage.Answer) {
	switch {
	case a.Err != nil:
		if whole.Result == nil {
			whole.Err = a.Err
		}
		return
	case whole.Result == nil:
		*whole = *a
		return
	}
	addRecords(whole.Result, a.Result)
	slices.SortStableFunc(whole.Result.Records, func(a, b tube.NamedRecord) int {
		return cmp.Or(cmp.Compare(a.DueAt(), b.DueAt()), compareNames(a, b))
	})
}

// mergePage adds a page of the records of one partition to one of all, which has as many names as op asks for.
func mergePage(op *storage.Op, a *storage.Answer) {
	whole := &op.Answer
	if whole.Result == nil {
		*whole = *a
		return
	}
	result, end := whole.Result, whole.Result.Cursor
	if other := a.Result.Cursor; end == "" || other != "" && other < end {
		end = other
	}
	addRecords(result, a.Result)
	slices.SortStableFunc(result.Records, compareNames)
	if end != "" {
		result.Records = slices.DeleteFunc(result.Records, func(r tube.NamedRecord) bool { return r.RecordName() > end })
	}
	names := 0
	for i, r := range result.Records {
		if i > 0 && compareNames(r, result.Records[i-1]) == 0 {
			continue
		}
		if names++; names > countOf(op) {
			result.Records, end = result.Records[:i], result.Records[i-1].RecordName()
			break
		}
	}
	result.Cursor = end
}

func compareNames(a, b tube.NamedRecord) int { return strings.Compare(a.RecordName(), b.RecordName()) }

// addRecords adds the records of one partition, behind those of earlier ones, and its time.
func addRecords(to, from *storage.Result) {
	to.Records = append(to.Records, from.Records...)
	to.Now, to.Parts = max(to.Now, from.Now), from.Parts
}
