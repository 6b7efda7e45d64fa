package redis

import (
	"fmt"
	"slices"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// putForm is how a put is encoded. The puts of a form have the same operation of the script: one for many puts to a
// tube that differ only in priority, TTR, body and group, and put-tagged, in which each put has its own arguments.
// What put-tagged costs beside each of the others is in lua/slow/put.lua.
type putForm int

const (
	plainPut   putForm = iota // no tags, no delay
	delayedPut                // no tags
	groupedPut                // a group and no other tags, no delay
	memberPut                 // a batch and no other tags, no delay
	taggedPut                 // any tags
	numPutForms
)

// formOf decides how a put is encoded.
func formOf(op *storage.Op) putForm {
	switch {
	case op.Args == nil && op.Delay == 0:
		return plainPut
	case op.Args == nil:
		return delayedPut
	case op.Delay > 0 || !op.Args.Tags.OnlyGroupOrBatch():
		return taggedPut
	case op.Args.Tags.Group != "":
		return groupedPut
	}
	return memberPut
}

// encodePuts appends the first puts, which have one form and go to one tube, and returns how many.
func (p *partition) encodePuts(c *call, ops []*storage.Op) int {
	form := formOf(ops[0])
	n, same := c.consecutivePuts(ops, form)
	if form == taggedPut {
		p.encodeTaggedPuts(c, ops[:n])
	} else {
		p.encodeAlike(c, form, ops[:n], same)
	}
	return n
}

// consecutivePuts returns how many of the first puts become one operation, and whether all of them have the same
// priority and TTR, so that the jobs become ranges.
func (c *call) consecutivePuts(ops []*storage.Op, form putForm) (n int, same bool) {
	n = alike(ops, func(op *storage.Op) bool {
		return op.Kind == storage.Put && formOf(op) == form && op.Tube == ops[0].Tube && sameArgs(form, op, ops[0]) && !c.refuses(op)
	})
	if form == taggedPut || form == delayedPut {
		return n, form == delayedPut
	}
	return sameTerms(ops[:n], form)
}

// sameArgs returns whether two puts of a form have the same arguments for that form.
func sameArgs(form putForm, a, b *storage.Op) bool {
	switch form {
	case delayedPut:
		return a.Delay == b.Delay
	case memberPut:
		return a.Args.Tags.Batch == b.Args.Tags.Batch && a.Args.Tags.BatchTTL == b.Args.Tags.BatchTTL
	}
	return true
}

// sameTerms returns how many of the first puts either all have the same priority and TTR, or are a mix without long
// streaks of the same.
func sameTerms(ops []*storage.Op, form putForm) (n int, same bool) {
	streak := 0 // how many of the last ones have the same priority and TTR
	for i := range ops {
		if streak > 0 && (ops[i].Pri != ops[i-1].Pri || ops[i].TTR != ops[i-1].TTR) {
			if streak == i && streak >= schema.RangeFrom {
				return i, true
			}
			streak = 0
		}
		streak++
		if streak >= schema.RangeFrom && streak <= i {
			return i + 1 - streak, false
		}
	}
	return len(ops), streak == len(ops) && (streak >= schema.RangeFrom || form == groupedPut)
}

// encodeAlike appends puts of a form other than taggedPut. same says that all have the same priority and TTR.
func (p *partition) encodeAlike(c *call, form putForm, ops []*storage.Op, same bool) {
	first, urgent, size, owner := ops[0], 0, 0, ""
	for _, op := range ops {
		size += len(op.Body)
		if op.Pri < tube.UrgentBelow {
			urgent++
		}
	}
	c.words(putWords[form], &first.Tube, boolArg(p.refs.isReported(first.Tube)), len(ops), urgent, size)
	cached := same && (form == plainPut || form == groupedPut) && p.bodies.room()
	if cached {
		owner = p.instance.name()
	}
	if same {
		c.words(&first.Pri, rangeTerms(first)+owner)
	} else {
		c.words("", "")
	}
	p.addArgs(c, form, ops)
	c.puts += len(ops)
	var block []byte
	for _, op := range ops {
		if !same {
			c.words(&op.Pri)
		}
		block = appendBlock(block[:0], form, op)
		c.addRecord(op, block)
	}
	c.expect(readerOf(form, cached), ops...)
}

// putWords are the names of the operations.
var putWords = [...]string{plainPut: "put", delayedPut: "put-delayed", groupedPut: "put-grouped", memberPut: "put-members"}

// addArgs appends the arguments that only the puts of a form have.
func (p *partition) addArgs(c *call, form putForm, ops []*storage.Op) {
	switch form {
	case delayedPut:
		c.words(&ops[0].Delay)
	case groupedPut:
		for _, op := range ops {
			c.words(op.Args.Tags.Group)
			p.groupNames.notePut(op)
		}
	case memberPut:
		c.words(ops[0].Args.Tags.Batch, ops[0].Args.Tags.BatchTTL.Milliseconds())
	}
}

// appendBlock appends the metadata block of a job that is put; none if it has no metadata.
func appendBlock(b []byte, form putForm, op *storage.Op) []byte {
	switch form {
	case groupedPut:
		return schema.AppendGroup(b, op.Args.Tags.Group)
	case memberPut:
		return schema.AppendBatch(b, op.Args.Tags.Batch)
	}
	return b
}

// rangeTerms is the part of a range's name that describes its jobs, which were put like op.
func rangeTerms(op *storage.Op) string {
	return fmt.Sprintf("%d;%d;", op.Pri, max(op.TTR, tube.MinTTR))
}

// addRecord appends the record of a job that is put, with its metadata block, which can be empty.
func (c *call) addRecord(op *storage.Op, block []byte) {
	from, growth := len(c.text), 0
	c.text = schema.AppendHead(c.text, op, c.created)
	if len(block) > 0 {
		c.text[from+schema.LetterAt] += schema.LowerCase
		growth = schema.MaxGrowth
	}
	head := c.text[from:len(c.text):len(c.text)]
	size := len(head) + len(op.Body) + len(block)
	c.most = max(c.most, size+growth)
	if size >= c.largeFrom {
		c.stage(stagedRecord{head: head, body: op.Body, metadata: slices.Clone(block)})
		return
	}
	c.text = append(append(c.text, op.Body...), block...)
	c.args = append(c.args, c.text[from:len(c.text):len(c.text)])
}

// numberPuts assigns ids to the jobs of a sequence of puts. It returns whether none was
// refused.
func (p *partition) numberPuts(r *reply, ops []*storage.Op) (all bool) {
	all = true
	for _, op := range ops {
		if r.puts++; r.refused[r.puts] {
			op.Answer.Err, all = storage.ErrQuota, false
			continue
		}
		op.Answer.ID = r.id*uint64(p.of) + uint64(p.number)
		r.id++
		p.flow.of(op.Tube).Puts++
	}
	if r.id > 0 { // else no job was put
		p.ids.order.saw(r.id - 1)
	}
	return all
}

// readerOf returns what reads the answer to puts of a form. cached says that the bodies of ranges are cached.
func readerOf(form putForm, cached bool) func(*partition, *reply, []*storage.Op) {
	switch {
	case form == groupedPut && cached:
		return readCachedRuns
	case form == groupedPut:
		return readRuns
	case form == memberPut:
		return readMembers
	case cached:
		return (*partition).readOwnRange
	}
	return (*partition).readPuts
}

// readPuts reads a sequence of puts. The bodies of large ready jobs are cached.
func (p *partition) readPuts(r *reply, ops []*storage.Op) {
	p.numberPuts(r, ops)
	for i, op := range ops {
		if op.Answer.Err == nil && len(op.Body) >= p.options.largeFrom && op.Delay == 0 && p.bodies.room() {
			p.bodies.keep(ops[i:i+1], r.sent)
		}
	}
}

// readOwnRange is readPuts for a range whose bodies are cached.
func (p *partition) readOwnRange(r *reply, ops []*storage.Op) {
	if p.numberPuts(r, ops) {
		p.bodies.keep(ops, r.sent)
	}
}

// readReady reads puts of ready jobs.
func (p *partition) readReady(r *reply, ops []*storage.Op) {
	p.numberPuts(r, ops)
	for _, op := range ops {
		if op.Answer.Err == nil {
			op.Answer.State = tube.Ready
		}
	}
}

// readMembers reads puts of members of a batch, which are refused if it is sealed.
func readMembers(p *partition, r *reply, ops []*storage.Op) {
	if r.found() {
		p.readReady(r, ops)
		return
	}
	for _, op := range ops {
		op.Answer.Outcome = tube.PutSealed
	}
	r.puts += len(ops)
}

// readRuns reads puts of jobs with groups, of which some have become ranges.
func readRuns(p *partition, r *reply, ops []*storage.Op) {
	p.readEachRun(r, ops, func([]*storage.Op) {})
}

// readCachedRuns does that if the bodies in these ranges are cached.
func readCachedRuns(p *partition, r *reply, ops []*storage.Op) {
	p.readEachRun(r, ops, func(run []*storage.Op) { p.bodies.keep(run, r.sent) })
}

// readEachRun does that, and calls a function for the puts of each range.
func (p *partition) readEachRun(r *reply, ops []*storage.Op, each func(run []*storage.Op)) {
	p.readReady(r, ops)
	for range r.int64() {
		first, n := r.int(), r.int()
		if r.err != nil || first < 0 || n < 0 || first+n > len(ops) {
			r.err = errReply
			return
		}
		each(ops[first : first+n])
	}
}
