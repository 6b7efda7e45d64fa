package redis

import (
	"slices"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// Puts whose only tag is a group. They are nearly as cheap as those without tags.

// isGroupedPut returns whether op puts a job with a group, without a delay or other tags.
func isGroupedPut(op *storage.Op) bool {
	return isTaggedPut(op) && op.Delay == 0 && op.Args.Tags.OnlyGroup()
}

// encodeGroupedPuts appends the first puts with groups, to one tube, and returns how many.
func (p *partition) encodeGroupedPuts(c *call, ops []*storage.Op) int {
	first, same, urgent := ops[0], true, 0
	n := alike(ops, func(op *storage.Op) bool {
		if !isGroupedPut(op) || op.Tube != first.Tube {
			return false
		}
		same = same && op.Pri == first.Pri && op.TTR == first.TTR
		return true
	})
	ops = ops[:n]
	for _, op := range ops {
		if op.Pri < tube.UrgentBelow {
			urgent++
		}
	}
	c.words("grouped-put", &first.Tube, boolArg(p.refs.isReported(first.Tube)), n, urgent, sizeOf(ops))
	read := readGroupedPuts
	switch {
	case !same:
		c.words("", "")
	case p.bodies.room():
		c.words(&first.Pri, rangeTerms(first)+p.instance.name())
		read = readCachedPuts
	default:
		c.words(&first.Pri, rangeTerms(first))
	}
	for _, op := range ops {
		c.words(op.Args.Tags.Group)
		p.groupNames.notePut(op)
	}
	for _, op := range ops {
		if !same {
			c.words(&op.Pri)
		}
		c.addGroupedRecord(op)
	}
	c.puts += n
	c.expect(read, ops...)
	return n
}

// addGroupedRecord appends the record of a job that is put into a group.
func (c *call) addGroupedRecord(op *storage.Op) {
	var block [schema.MaxGroupBlock]byte
	c.addRecordWithBlock(op, schema.AppendGroup(block[:0], op.Args.Tags.Group))
}

// addRecordWithBlock appends the record of a ready job with such a metadata block.
func (c *call) addRecordWithBlock(op *storage.Op, block []byte) {
	from := len(c.text)
	plain := storage.Op{Tube: op.Tube, Pri: op.Pri, TTR: op.TTR}
	c.text = schema.AppendHead(c.text, &plain, c.created)
	c.text[from+schema.LetterAt] += schema.LowerCase
	head := c.text[from:len(c.text):len(c.text)]
	size := len(head) + len(op.Body) + len(block)
	c.most = max(c.most, size+schema.MaxGrowth)
	if size >= c.largeFrom {
		c.stage(stagedRecord{head: head, body: op.Body, metadata: slices.Clone(block)})
		return
	}
	c.text = append(append(c.text, op.Body...), block...)
	c.args = append(c.args, c.text[from:len(c.text):len(c.text)])
}

// readGroupedPuts reads the answer to puts with groups.
func readGroupedPuts(p *partition, r *reply, ops []*storage.Op) {
	readRuns(p, r, ops, func([]*storage.Op) {})
}

// readCachedPuts does that if the bodies of those that are in ranges are to be cached.
func readCachedPuts(p *partition, r *reply, ops []*storage.Op) {
	readRuns(p, r, ops, func(run []*storage.Op) { p.bodies.keep(run, r.sent) })
}

// readRuns reads the answer to puts with groups, and calls a function for those of each range.
func readRuns(p *partition, r *reply, ops []*storage.Op, each func(run []*storage.Op)) {
	p.numberPuts(r, ops)
	for _, op := range ops {
		if op.Answer.Err == nil {
			op.Answer.State = tube.Ready
		}
	}
	for range r.int64() {
		first, n := r.int(), r.int()
		if r.err != nil || first < 0 || n < 0 || first+n > len(ops) {
			r.err = errReply
			return
		}
		each(ops[first : first+n])
	}
}
