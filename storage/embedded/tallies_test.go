package embedded

import (
	"fmt"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// TestTalliesInTables: tallies that are in the tables need no memory, but for those of the present hour and day, and are removed from
// there when they are old.
func TestTalliesInTables(t *testing.T) {
	d := newDisk()
	e := mustOpen(t, d.options(t))
	defer func() { e.Close() }()
	const tubes = 20
	number, began := uint64(0), tube.Hours.At(tube.Instant(d.clock.now().UnixNano()))
	add := func() {
		rows := []tube.TubeTally{{Tube: "", Tally: tube.Tally{tubes}}}
		for n := range tubes {
			rows = append(rows, tube.TubeTally{Tube: fmt.Sprint("t", n), Tally: tube.Tally{1}})
		}
		number++
		do(t, e, storage.Op{Kind: storage.AddTallies, Args: &storage.Args{Tallies: &storage.Tallies{From: "test", Number: number, Rows: rows}}})
		if number%50 == 0 {
			fillSegment(t, e)
			eventually(t, "the tables", func() bool { return unsaved(e) == 0 })
		}
		d.clock.advance(time.Hour)
	}
	read := func(name string) []tube.PeriodTally {
		ops := do(t, e, storage.Op{Kind: storage.ReadTallies, Tube: name, Args: &storage.Args{Tallies: &storage.Tallies{Period: tube.Hours, Count: 168}}})
		return ops[0].Answer.Result.Tallies
	}
	for range 250 {
		add()
	}
	for range 2 {
		if n, all := len(read("t7")), len(read("")); n != 167 || all != 167 { // the last hour has ended
			t.Errorf("%d hours of t7 and %d of all are there, want 167", n, all)
		}
		e.Close()
		e = mustOpen(t, d.options(t))
	}
	left := 0
	for hour := began; hour < began+100; hour++ {
		if err := e.journal.tables.Tallies(tube.Hours, hour, func(string, tube.Tally) { left++ }); err != nil {
			t.Fatal(err)
		}
	}
	if left > 20*(tubes+1) {
		t.Errorf("%d old tallies are in the tables", left)
	}
	if kept, err := e.journal.tables.Tally(tables.TallyKey{Period: tube.Days, Number: tube.Days.At(tube.Instant(d.clock.start.UnixNano())), Tube: "t1"}); err != nil || kept[0] == 0 {
		t.Errorf("the first day is %v, %v", kept, err)
	}
}

// unsaved returns how many tallies the tables lack.
func unsaved(e *Engine) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.tallies.unsaved)
}
