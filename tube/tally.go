package tube

import (
	"cmp"
	"slices"
	"time"
)

// Tallied is what a Tally counts.
type Tallied uint8

// What a Tally counts. Stored tallies have the numbers in this order: new ones go to the end.
const (
	TallyPuts    Tallied = iota // jobs that were added, see Flow.Puts
	TallyStarted                // deliveries
	TallyDone                   // jobs that their holders have deleted
	TallyFailed                 // deliveries that ended with a release that is a failure, with a bury, or with the TTR
	TallyParked                 // jobs that were parked or went to a dead-letter tube
	TallyExpired                // jobs whose time was over
	TallyFirst                  // deliveries whose wait is known: the first of their jobs
	TallyWait                   // ms that these jobs have waited in sum, from when they were due
	TallyRun                    // ms that the jobs that are done have run in sum, from their last delivery
	NumTallied
)

// String returns the name of the number on the wire, in JSON and in tables.
func (c Tallied) String() string {
	return [NumTallied]string{"put", "started", "done", "failed", "parked", "expired", "first", "wait-ms", "run-ms"}[c]
}

// Tally counts what happened in a tube, or in all tubes, in one Period.
type Tally [NumTallied]uint64

// Add adds the numbers of u.
func (t *Tally) Add(u *Tally) {
	for i := range t {
		t[i] += u[i]
	}
}

// Since returns by how much t has grown since it was u. If it has not grown from u, because it was begun anew, that is t.
func (t Tally) Since(u *Tally) Tally {
	grown := t
	for i := range t {
		if t[i] < u[i] {
			return t
		}
		grown[i] -= u[i]
	}
	return grown
}

// busy is what the busiest tubes have most of.
func (t *Tally) busy() uint64 { return t[TallyPuts] + t[TallyStarted] + t[TallyDone] }

// Tally returns what a Tally shows of f.
func (f *Flow) Tally() Tally {
	return Tally{
		TallyPuts: f.Puts, TallyStarted: f.Counts[Reserves], TallyDone: f.Runs.Count(),
		TallyFailed: f.Counts[Releases] - f.Snoozes + f.Counts[Timeouts] + f.Counts[Buries],
		TallyParked: f.Parked, TallyExpired: f.Expired,
		TallyFirst: f.Waits.Count(), TallyWait: uint64(f.Waits.Sum.Milliseconds()), TallyRun: uint64(f.Runs.Sum.Milliseconds()),
	}
}

// Period is how long a Tally counts.
type Period uint8

// The periods. They begin with the hours and days of UTC.
const (
	Hours Period = iota
	Days
	NumPeriods
)

// String returns the name of the period on the wire.
func (p Period) String() string { return [NumPeriods]string{"hours", "days"}[p] }

// Length returns how long the period is.
func (p Period) Length() time.Duration {
	return [NumPeriods]time.Duration{time.Hour, 24 * time.Hour}[p]
}

// Kept returns how many periods are kept, the present one included.
func (p Period) Kept() int { return [NumPeriods]int{7 * 24, 90}[p] }

// At returns the number of the period of a wall time: how many have ended since the epoch.
func (p Period) At(now Instant) uint64 { return uint64(max(now, 0)) / uint64(p.Length()) }

// Begin returns when the period of a number begins.
func (p Period) Begin(number uint64) Instant { return Instant(number * uint64(p.Length())) }

// First returns the number of the first of the last count periods, of which last is the last one. No more than Kept are.
func (p Period) First(last uint64, count int) uint64 {
	return last - min(last, uint64(max(min(count, p.Kept()), 1)-1))
}

const (
	// MaxTallied is how many tubes have a Tally of their own in a period: the busiest ones. All tubes together have one, too.
	MaxTallied = 1000

	// TrimTallied is how many tubes can have one at times: if there are more, those of the least busy are dropped.
	TrimTallied = MaxTallied * 5 / 4
)

// TubeTally is the Tally of a tube. The name of all tubes together is "".
type TubeTally struct {
	Tube string
	Tally
}

// PeriodTally is the Tally of the period that begins then.
type PeriodTally struct {
	Begin Instant
	Tally
}

// LeastBusy returns the tubes whose tallies of a period are to be dropped: none unless there are more than TrimTallied. tallies are
// those of the period, by tube; that of all tubes together is none of them.
func LeastBusy(tallies map[string]Tally) []string {
	if len(tallies) <= TrimTallied {
		return nil
	}
	all := make([]TubeTally, 0, len(tallies))
	for name, t := range tallies {
		if name != "" {
			all = append(all, TubeTally{name, t})
		}
	}
	slices.SortFunc(all, func(a, b TubeTally) int {
		return cmp.Or(cmp.Compare(b.busy(), a.busy()), cmp.Compare(a.Tube, b.Tube))
	})
	var names []string
	for i := MaxTallied; i < len(all); i++ {
		names = append(names, all[i].Tube)
	}
	return names
}
