package redis

import (
	"fmt"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// isPlainPut returns whether op puts a job without tags.
func isPlainPut(op *storage.Op) bool { return op.Kind == storage.Put && op.Args == nil }

// encodePuts appends the first puts, to one tube, and returns how many.
func (p *partition) encodePuts(c *call, ops []*storage.Op) int {
	n, same := consecutivePuts(ops)
	if ops = ops[:n]; ops[0].Delay > 0 {
		p.encodeDelayedPuts(c, ops)
	} else {
		p.encodeReadyPuts(c, ops, same)
	}
	c.puts += n
	return n
}

// sizeOf returns the size of the bodies of puts, in bytes.
func sizeOf(puts []*storage.Op) (bytes int) {
	for _, op := range puts {
		bytes += len(op.Body)
	}
	return bytes
}

func (p *partition) encodeDelayedPuts(c *call, ops []*storage.Op) {
	first := ops[0]
	c.words("put-delayed", &first.Tube, boolArg(p.refs.isReported(first.Tube)), &first.Delay, sizeOf(ops), len(ops))
	for _, op := range ops {
		c.addRecord(op)
	}
	c.expect((*partition).readPuts, ops...)
}

// encodeReadyPuts appends puts without a delay. If all have the same priority and TTR, their
// jobs become a range.
func (p *partition) encodeReadyPuts(c *call, ops []*storage.Op, same bool) {
	first, urgent := ops[0], 0
	for _, op := range ops {
		if op.Pri < tube.UrgentBelow {
			urgent++
		}
	}
	c.words("put", &first.Tube, boolArg(p.refs.isReported(first.Tube)), len(ops), urgent, sizeOf(ops))
	if !same {
		c.words("", "")
		for _, op := range ops {
			c.words(&op.Pri)
			c.addRecord(op)
		}
		c.expect((*partition).readPuts, ops...)
		return
	}
	terms, read := rangeTerms(first), (*partition).readPuts
	if p.bodies.room() {
		terms += p.instance.name()
		read = (*partition).readOwnRange
	}
	c.words(&first.Pri, terms)
	for _, op := range ops {
		c.addRecord(op)
	}
	c.expect(read, ops...)
}

// rangeTerms is the part of a range's name that describes its jobs, which were put like op.
func rangeTerms(op *storage.Op) string {
	return fmt.Sprintf("%d;%d;", op.Pri, max(op.TTR, tube.MinTTR))
}

// consecutivePuts returns how many of the first puts form one operation: all to one tube with one
// delay. Without a delay they either all have the same priority and TTR, or are a mix without
// long streaks of the same.
func consecutivePuts(ops []*storage.Op) (n int, same bool) {
	first := ops[0]
	streak := 0 // how many of the last ones have the same priority and TTR
	n = alike(ops, func(op *storage.Op) bool {
		return isPlainPut(op) && op.Delay == first.Delay && op.Tube == first.Tube
	})
	if first.Delay > 0 {
		return n, false
	}
	for i := range n {
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
	return n, streak == n && n >= schema.RangeFrom
}

// addRecord appends the record of a job that is put.
func (c *call) addRecord(op *storage.Op) {
	from := len(c.text)
	c.text = schema.AppendHead(c.text, op, c.created)
	head := c.text[from:len(c.text):len(c.text)]
	size := len(head) + len(op.Body)
	c.most = max(c.most, size)
	if size >= c.largeFrom {
		c.stage(stagedRecord{head: head, body: op.Body})
		return
	}
	c.text = append(c.text, op.Body...)
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
