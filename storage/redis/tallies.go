package redis

import (
	"fmt"
	"strconv"
	"strings"

	"redstalk/storage"
	"redstalk/tube"
)

// Tallies: see lua/bulk/tallies.lua.

// encodeTallies appends an operation on tallies.
func encodeTallies(c *call, op *storage.Op) {
	a := op.Args.Tallies
	if op.Kind == storage.ReadTallies {
		count := max(min(a.Count, a.Period.Kept()), 1)
		c.words("read-tallies", int(a.Period)+1, count, op.Tube)
		c.expect((*partition).readTallies, op)
		return
	}
	c.words("add-tallies", a.From, strconv.FormatUint(a.Number, 10), len(a.Rows))
	for i := range a.Rows {
		c.words(a.Rows[i].Tube, tallyText(&a.Rows[i].Tally))
	}
	c.expect((*partition).readFound, op)
}

// tallyText returns the numbers of a tally with spaces between them.
func tallyText(t *tube.Tally) string { return strings.Trim(fmt.Sprint(*t), "[]") }

// readTallies reads the answer to ReadTallies.
func (p *partition) readTallies(r *reply, ops []*storage.Op) {
	result, period := &storage.Result{Now: r.instant()}, ops[0].Args.Tallies.Period
	for range r.int64() {
		one := tube.PeriodTally{Begin: period.Begin(r.count())}
		for i, word := range strings.Fields(r.text()) {
			if i < len(one.Tally) {
				one.Tally[i] = uint64(r.parse(word))
			}
		}
		result.Tallies = append(result.Tallies, one)
	}
	ops[0].Answer.Result = result
}
