package storetest

import (
	"fmt"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// addTallies adds rows as the operation of that number.
func (b *harness) addTallies(number uint64, rows ...tube.TubeTally) {
	b.Helper()
	b.do(storage.Op{Kind: storage.AddTallies, Args: &storage.Args{Tallies: &storage.Tallies{From: "test", Number: number, Rows: rows}}})
}

// tallies reads the tallies of a tube of the last periods.
func (b *harness) tallies(name string, period tube.Period, count int) []tube.PeriodTally {
	b.Helper()
	return b.do(storage.Op{Kind: storage.ReadTallies, Tube: name, Args: &storage.Args{Tallies: &storage.Tallies{Period: period, Count: count}}}).Result.Tallies
}

// wantTallies checks how many jobs were put in the last periods in which any was.
func (b *harness) wantTallies(name string, period tube.Period, puts ...uint64) {
	b.Helper()
	all := b.tallies(name, period, period.Kept())
	ok := len(all) == len(puts)
	for i := range all {
		ok = ok && all[i].Tally == tallyOf(puts[i]) && uint64(all[i].Begin)%uint64(period.Length()) == 0 && (i == 0 || all[i].Begin > all[i-1].Begin)
	}
	if !ok {
		b.Errorf("the %v of %q are %v, want puts %v", period, name, all, puts)
	}
}

// tallyOf returns a tally with every number, by that of puts.
func tallyOf(puts uint64) (t tube.Tally) {
	for i := range t {
		t[i] = puts * uint64(i+1)
	}
	return t
}

// testTallies adds to tallies in several hours and days.
func testTallies(b *harness) {
	row := func(name string, puts uint64) tube.TubeTally { return tube.TubeTally{Tube: name, Tally: tallyOf(puts)} }
	b.wantTallies("t", tube.Hours)
	b.addTallies(1, row("", 5), row("t", 3))
	b.addTallies(2, row("t", 2), row("", 1<<40))
	b.addTallies(2, row("t", 2), row("", 1<<40)) // a repeated one
	b.wantTallies("t", tube.Hours, 5)
	b.wantTallies("t", tube.Days, 5)
	b.wantTallies("", tube.Hours, 5+1<<40)
	b.wantTallies("other", tube.Hours)
	b.advance(25 * time.Hour)
	b.addTallies(3, row("", 7), row("t", 7))
	b.advance(time.Hour)
	b.addTallies(4, row("", 1), row("u", 1))
	b.wantTallies("t", tube.Hours, 5, 7)
	b.wantTallies("u", tube.Hours, 1)
	b.wantTallies("", tube.Hours, 5+1<<40, 7, 1)
	if all := b.tallies("t", tube.Hours, 1); len(all) != 0 {
		b.Errorf("the present hour of t has %v", all)
	}
	b.advance(7 * 24 * time.Hour)
	b.addTallies(5, row("", 2), row("t", 2))
	b.wantTallies("t", tube.Hours, 2)
	if days := b.tallies("t", tube.Days, 90); len(days) != 3 {
		b.Errorf("the days of t are %v, want 3", days)
	}
	b.advance(90 * 24 * time.Hour)
	b.wantTallies("t", tube.Days)
	b.addTallies(6, row("t", 9))
	b.wantTallies("t", tube.Days, 9)
}

// testBusiestTallied adds tallies of more tubes than have one of their own.
func testBusiestTallied(b *harness) {
	const tubes = tube.TrimTallied + 100
	number := uint64(0)
	for from := 0; from < tubes; from += 50 {
		rows := []tube.TubeTally{{Tube: "", Tally: tallyOf(1)}}
		for n := from; n < from+50; n++ {
			rows = append(rows, tube.TubeTally{Tube: fmt.Sprint("t", n), Tally: tallyOf(uint64(1 + n%tube.MaxTallied))})
		}
		number++
		b.addTallies(number, rows...)
	}
	named := 0
	for n := range tubes {
		all := b.tallies(fmt.Sprint("t", n), tube.Days, 1)
		named += len(all)
		if len(all) == 0 && n%tube.MaxTallied > tubes/2 {
			b.Errorf("t%d, one of the busiest, has no tally", n)
		}
	}
	if named < tube.MaxTallied || named > tube.TrimTallied {
		b.Errorf("%d tubes have a tally, want %d to %d", named, tube.MaxTallied, tube.TrimTallied)
	}
	b.wantTallies("", tube.Days, number)
}

// testTalliesSurvive closes and reopens a store with tallies; testTalliesCrash ends it like a killed process.
func testTalliesSurvive(b *harness) { testTalliesReopened(b, func() { b.close() }) }

func testTalliesCrash(b *harness) {
	testTalliesReopened(b, func() {
		b.engine.Crash(b.store)
		b.store = nil
	})
}

func testTalliesReopened(b *harness, end func()) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	number := uint64(0)
	for round := range uint64(3) {
		for _, name := range []string{"", "t"} {
			number++
			b.addTallies(number, tube.TubeTally{Tube: name, Tally: tallyOf(round + 1)})
		}
		end()
		b.open()
		b.wantTallies("t", tube.Hours, []uint64{1, 2, 3}[:round+1]...)
		number++
		b.addTallies(number, tube.TubeTally{Tube: "u", Tally: tallyOf(1)})
		b.advance(time.Hour)
	}
	b.wantTallies("", tube.Hours, 1, 2, 3)
	b.wantTallies("u", tube.Hours, 1, 1, 1)
}
