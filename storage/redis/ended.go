package redis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// Records of ended jobs, and waits for the ends of jobs, both encoding and decoding: see lua/call/ended.lua and lua/tagged/ended.lua.

// ends returns whether the holder of a job ends it by a move.
func ends(m tube.Move) bool { return m == tube.Delete || m == tube.Finish }

// addEnding appends what the record of the job of the move that follows says about its holder.
func (c *call) addEnding(op *storage.Op, started string) {
	var by string
	var result []byte
	if op.Args != nil {
		by, result = op.Args.By, op.Args.Data
	}
	c.words("ending", by, started, result)
}

// deliveredAt returns when a job was delivered, in ms by the clock of Redis.
func (p *partition) deliveredAt(held *holding) int64 {
	return p.clock.redis() - p.clock.now().Sub(p.holdings.since(held)).Milliseconds()
}

// aboutHeld returns what delete-held says about jobs that their connections hold.
func (p *partition) aboutHeld(ops []*storage.Op) string {
	if !p.keeping {
		return ""
	}
	var b []byte
	for len(ops) > 0 {
		since := p.holdings.get(ops[0].ID).since
		n := alike(ops, func(op *storage.Op) bool { return p.holdings.get(op.ID).since == since && byOf(op) == byOf(ops[0]) })
		b = append(strconv.AppendInt(b, int64(n), 10), ';')
		b = append(strconv.AppendInt(b, p.deliveredAt(p.holdings.get(ops[0].ID)), 10), ';')
		b = appendName(b, byOf(ops[0]))
		ops = ops[n:]
	}
	return string(b)
}

// byOf returns the name of the holder of the job of a move.
func byOf(op *storage.Op) string {
	if op.Args == nil {
		return ""
	}
	return op.Args.By
}

// aboutLeased returns what delete-leased says about the holders of jobs.
func aboutLeased(ops []*storage.Op) string {
	if !slices.ContainsFunc(ops, func(op *storage.Op) bool { return op.Args.By != "" }) {
		return ""
	}
	var b []byte
	for _, op := range ops {
		b = appendName(b, byOf(op))
	}
	return string(b)
}

// appendName appends a name after its length.
func appendName(b []byte, name string) []byte {
	return append(append(strconv.AppendInt(b, int64(len(name)), 10), ':'), name...)
}

// readMoveLeased reads the answer of a move on behalf of a client with a lease token.
func (p *partition) readMoveLeased(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	switch r.int() {
	case 0:
		a.NotFound = true
	case 2:
		a.Result = &storage.Result{NotKept: true}
	}
}

// encodeEnded appends an operation about ended jobs.
func (p *partition) encodeEnded(c *call, u *unit, op *storage.Op) {
	switch op.Kind {
	case storage.WaitEnded:
		c.words("wait-ended")
		c.addID(op.ID)
		c.words(boolArg(op.Wait))
		c.expect((*partition).readWaitEnded, op)
	case storage.ListEnded:
		encodeListEnded(c, u, op)
	}
}

// What wait-ended answers first, see lua/tagged/ended.lua.
const (
	waitNothing = iota
	waitRecord
	waitNotKept
	waitGoesOn
	waitParked
)

func (p *partition) readWaitEnded(r *reply, ops []*storage.Op) {
	op := ops[0]
	a, is := &op.Answer, r.int()
	switch is {
	case waitNothing:
		a.NotFound = true
	case waitRecord:
		if e := r.ended(); e != nil {
			a.Result = &storage.Result{Ended: []*tube.Ended{e}}
		} else {
			a.NotFound = true
		}
	case waitNotKept:
		a.Result = &storage.Result{NotKept: true}
	case waitGoesOn:
		a.State = schema.StateOf(r.text())
	case waitParked:
		e := &tube.Ended{ID: op.ID, Tube: strings.Clone(r.text()), How: tube.StillParked}
		parked := tube.Parked(min(r.count(), uint64(tube.LastParked)))
		e.Reason = cmp.Or(strings.Clone(r.text()), parked.String())
		a.Result = &storage.Result{Ended: []*tube.Ended{e}}
	}
	if op.Wait {
		p.ends.answered(op.ID, is == waitGoesOn, p.listener.JobEnded)
	}
}

// ended reads the record of an ended job that wait-ended returns; nil if it is broken: only fsck reports that.
func (r *reply) ended() *tube.Ended {
	c, err := schema.ParseEndedChunk(strings.Clone(r.text()))
	more, later, text := r.count(), r.ms(), strings.Clone(r.text())
	if err != nil {
		return nil
	}
	e, err := c.Record(text, c.Seq+more, c.At.Plus(later))
	if err != nil {
		return nil
	}
	return e
}

// batchOf returns the batch that a ListEnded is about; "" if it is about a tube.
func batchOf(op *storage.Op) string {
	if op.Args == nil {
		return ""
	}
	return op.Args.Name
}

// encodeListEnded appends a list of records, or the next part of one. The cursor is the Seq before which the page begins.
func encodeListEnded(c *call, u *unit, op *storage.Op) {
	of, name, before := "of", op.Tube, u.many.last
	if seq := beforeOf(op); before == "" && seq < math.MaxUint64 {
		before = strconv.FormatUint(seq, 10)
	}
	if batch := batchOf(op); batch != "" {
		of, name = "in", batch
	}
	count := countOf(op)
	if count == 0 {
		op.Answer.Result = &storage.Result{}
		return
	}
	c.words("list-ended", of, name, count+1, maxEndedPage, before)
	c.expect(readListEnded(u), op)
}

// maxEndedPage is about how many bytes of records a page has at most.
const maxEndedPage = 1 << 20

// readListEnded reads a page, or a part of the chunks for one, of which none had a record for it.
func readListEnded(u *unit) func(*partition, *reply, []*storage.Op) {
	return func(_ *partition, r *reply, ops []*storage.Op) {
		op := ops[0]
		last := strings.Clone(r.text())
		page, full := r.endedPage(op)
		switch n := len(page); {
		case full:
			last = strconv.FormatUint(page[n-1].Seq, 10)
		case n == 0 && last != "":
			u.many.last = last
			u.againLater()
			return
		}
		op.Answer.Result, u.many = &storage.Result{Ended: page, Cursor: last}, manyProgress{}
	}
}

// endedPage reads the records of a page, and returns whether it can have no more. The chunks in the answer can have more, and records whose time is over.
func (r *reply) endedPage(op *storage.Op) (page []*tube.Ended, full bool) {
	now, before, bytes := tube.Instant(r.ms()), beforeOf(op), 0
	for range r.int64() {
		for _, e := range slices.Backward(r.endedChunk()) {
			if e.Seq >= before || e.Until <= now {
				continue
			}
			n := len(page)
			if full = full || n > 0 && (n == countOf(op) || bytes+e.Bytes() > maxEndedPage); !full {
				page, bytes = append(page, e), bytes+e.Bytes()
			}
		}
	}
	return page, full
}

// endedChunk reads the records of a chunk, none if it is broken: only fsck reports that.
func (r *reply) endedChunk() []*tube.Ended {
	c, err := schema.ParseEndedChunk(strings.Clone(r.text()))
	if err != nil {
		return nil
	}
	all, _ := c.Records(int(r.step))
	return all
}

// beforeOf is the Seq before which a ListEnded begins.
func beforeOf(op *storage.Op) uint64 {
	if op.Args != nil {
		if seq, err := strconv.ParseUint(op.Args.Cursor, 10, 64); err == nil {
			return seq
		}
	}
	return math.MaxUint64
}

// mergeEnded adds a page of the records of one partition to one of all. No two records have the same Seq.
func mergeEnded(op *storage.Op, a *storage.Answer) {
	whole := &op.Answer
	if whole.Result == nil {
		*whole = *a
		return
	}
	result, end := whole.Result, max(cursorSeq(whole.Result), cursorSeq(a.Result))
	result.Ended = append(result.Ended, a.Result.Ended...)
	slices.SortFunc(result.Ended, func(a, b *tube.Ended) int { return cmp.Compare(b.Seq, a.Seq) })
	result.Ended = slices.DeleteFunc(result.Ended, func(e *tube.Ended) bool { return e.Seq < end })
	if count := countOf(op); len(result.Ended) > count {
		result.Ended = result.Ended[:count]
		end = result.Ended[count-1].Seq
	}
	if result.Cursor = ""; end > 0 {
		result.Cursor = fmt.Sprint(end)
	}
}

// cursorSeq returns the Seq before which the next page begins; 0 if there is none.
func cursorSeq(r *storage.Result) uint64 {
	seq, _ := strconv.ParseUint(r.Cursor, 10, 64)
	return seq
}
