package redis

import (
	"cmp"
	"fmt"
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
		by, result = op.Args.By, op.Args.Result
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
	for _, op := range ops {
		b = append(strconv.AppendInt(b, p.deliveredAt(p.holdings.get(op.ID)), 10), ';')
		b = appendName(b, op)
	}
	return string(b)
}

// aboutLeased returns what delete-leased says about the holders of jobs.
func aboutLeased(ops []*storage.Op) string {
	if !slices.ContainsFunc(ops, func(op *storage.Op) bool { return op.Args.By != "" }) {
		return ""
	}
	var b []byte
	for _, op := range ops {
		b = appendName(b, op)
	}
	return string(b)
}

// appendName appends the name of the holder of the job of a move, after its length.
func appendName(b []byte, op *storage.Op) []byte {
	by := ""
	if op.Args != nil {
		by = op.Args.By
	}
	b = append(strconv.AppendInt(b, int64(len(by)), 10), ':')
	return append(b, by...)
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
func (p *partition) encodeEnded(c *call, op *storage.Op) {
	switch op.Kind {
	case storage.WaitEnded:
		c.words("wait-ended")
		c.addID(op.ID)
		c.words(boolArg(op.Wait))
		c.expect((*partition).readWaitEnded, op)
	case storage.ListEnded:
		p.encodeListEnded(c, op)
	}
}

// What wait-ended answers first, see lua/tagged/ended.lua.
const (
	waitNothing = iota
	waitRecord
	waitUnkept
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
		if e := r.ended(op.ID); e != nil {
			a.Result = &storage.Result{Ended: []*tube.Ended{e}}
		} else {
			a.NotFound = true
		}
	case waitUnkept:
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

// ended reads the record of an ended job; nil if it is broken: only fsck reports that.
func (r *reply) ended(id uint64) *tube.Ended {
	e, err := schema.ParseEnded(id, strings.Clone(r.text()))
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

// encodeListEnded appends a list of records. The cursor is the Seq of the last one of the page before.
func (p *partition) encodeListEnded(c *call, op *storage.Op) {
	of, name, before := "of", op.Tube, ""
	if op.Args != nil && op.Args.Cursor != "" {
		seq, err := strconv.ParseUint(op.Args.Cursor, 10, 64)
		if err == nil {
			before = strconv.FormatUint(seq, 10)
		}
	}
	if batch := batchOf(op); batch != "" {
		of, name = "in", batch
	}
	count := countOf(op)
	if count == 0 {
		op.Answer.Result = &storage.Result{}
		return
	}
	c.words("list-ended", of, name, count, before)
	c.expect((*partition).readListEnded, op)
}

func (p *partition) readListEnded(r *reply, ops []*storage.Op) {
	result := &storage.Result{Cursor: strings.Clone(r.text())}
	for range r.int64() {
		if e := r.ended(r.count()); e != nil {
			result.Ended = append(result.Ended, e)
		}
	}
	ops[0].Answer.Result = result
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
