package tube

import (
	"fmt"
	"testing"
	"time"
)

func TestPeriods(t *testing.T) {
	at := Instant(time.Date(2026, 11, 28, 17, 59, 59, 999, time.UTC).UnixNano())
	for period, want := range map[Period]time.Time{Hours: time.Date(2026, 11, 28, 17, 0, 0, 0, time.UTC), Days: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)} {
		number := period.At(at)
		if begin := period.Begin(number); time.Unix(0, int64(begin)).UTC() != want {
			t.Errorf("the present one of %v begins at %v, want %v", period, begin, want)
		}
		for count, first := range map[int]uint64{0: number, 1: number, 3: number - 2, 1000: number - uint64(period.Kept()) + 1} {
			if got := period.First(number, count); got != first {
				t.Errorf("the first of the last %d %v is %d, want %d", count, period, got, first)
			}
		}
	}
	if Hours.First(5, 100) != 0 || Hours.At(-7) != 0 {
		t.Error("periods begin before the epoch")
	}
}

// TestTallySince: a Flow that was begun anew has a Tally that is smaller in some number.
func TestTallySince(t *testing.T) {
	before, now, again := Tally{5, 6, 7}, Tally{5, 8, 9}, Tally{6, 1, 9}
	if got := now.Since(&before); got != (Tally{0, 2, 2}) {
		t.Errorf("it has grown by %v", got)
	}
	if got := again.Since(&before); got != again {
		t.Errorf("begun anew, it has grown by %v", got)
	}
}

func TestLeastBusy(t *testing.T) {
	all := map[string]Tally{"": {}}
	for n := range TrimTallied {
		if got := LeastBusy(all); len(got) != 0 {
			t.Fatalf("%d of %d tubes are dropped", len(got), n)
		}
		all[fmt.Sprint(n)] = Tally{TallyStarted: uint64(n)}
	}
	dropped := LeastBusy(all)
	for _, name := range dropped {
		delete(all, name)
	}
	if _, busy := all[fmt.Sprint(TrimTallied-MaxTallied)]; !busy || len(all) != MaxTallied+1 || len(dropped) != TrimTallied-MaxTallied {
		t.Errorf("%d tubes are dropped, and %d are left", len(dropped), len(all)-1)
	}
}

// TestFlowTally: every number is in its place.
func TestFlowTally(t *testing.T) {
	f := Flow{Puts: 1, Parked: 2, Expired: 3, Snoozes: 4}
	f.Counts = [NumCounters]uint64{Reserves: 10, Releases: 24, Timeouts: 300, Buries: 5000}
	f.Waits.Observe(7 * time.Millisecond)
	f.Runs.Observe(8 * time.Millisecond)
	f.Runs.Observe(90 * time.Millisecond)
	if got := f.Tally(); got != (Tally{TallyPuts: 1, TallyStarted: 10, TallyDone: 2, TallyFailed: 5320, TallyParked: 2, TallyExpired: 3, TallyFirst: 1, TallyWait: 7, TallyRun: 98}) {
		t.Errorf("the tally is %v", got)
	}
}
