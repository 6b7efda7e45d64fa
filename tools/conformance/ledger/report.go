package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxFaults is the number of faults that are described.
const maxFaults = 20

// Report is the state of the ledger.
type Report struct {
	Puts, PutsAcked, PutsRefused, PutsUnknown int

	// Deletes that are in neither of the others were overtaken.
	Deletes, DeletesAcked, DeletesUnknown int

	Live           int // jobs that were there at the last audit
	Overtaken      int // NOT_FOUND for the holder of a job
	InternalErrors int // replies; the outcomes are unknown
	Broken         int // connections
	Frozen         int // times that a client was frozen with jobs that it held

	// LongestUnanswered is the longest time that a client was without an answer:
	// INTERNAL_ERROR does not count as one, and a reserve's timeout is not included.
	LongestUnanswered time.Duration

	// Shared counts, with Config.Excuse, jobs that were delivered while
	// another client had them, by the excuse.
	Shared map[string]int

	// Counts of leasers: repeated puts after a lost reply, leases, moved jobs,
	// jobs that were found under another id, refused ended leases.
	Repeated, Leases, Moved, Renamed, PastRefused int

	// Counts of limits: reservations that were the last one that a limit allows, and paused groups.
	Full, Pauses int

	// Faults of the server; see the package comment.
	Lost, Undead, DeletedTwice, Twice, Reused, Changed, Strange, Miscounted, Garbled int
	Contested, Robbed                                                                int
	Tokens, Obeyed, Exceeded, Stuck                                                  int

	// Faults describes the first of them.
	Faults []string
}

// Report returns the current report.
func (l *Ledger) Report() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.report
	r.Faults = append([]string(nil), r.Faults...)
	r.Shared = maps.Clone(r.Shared)
	return r
}

// TakeUnanswered returns the longest times without an answer since the last call, of those
// that are over, by the addresses that the client has used meanwhile, with a
// space between them.
func (l *Ledger) TakeUnanswered() map[string]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.unanswered
	l.unanswered = make(map[string]time.Duration)
	return all
}

// AwaitReplies waits until all clients that were without a reply before that
// moment have got one. The error is that of ctx.
func (l *Ledger) AwaitReplies(ctx context.Context, moment time.Time) error {
	for ctx.Err() == nil && l.anyAsking(moment) {
		pause(ctx)
	}
	return ctx.Err()
}

func (l *Ledger) anyAsking(before time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, since := range l.asking {
		if since.Before(before) {
			return true
		}
	}
	return false
}

// Err is nil if nothing was found wrong.
func (r Report) Err() error {
	if len(r.Faults) == 0 {
		return nil
	}
	return fmt.Errorf("the server did not keep its word: %v\n\t%s", r, strings.Join(r.Faults, "\n\t"))
}

// String is the figures, in a line.
func (r Report) String() string {
	s := fmt.Sprintf("puts %d (acknowledged %d, refused %d, unknown %d), deletes %d (acknowledged %d, unknown %d), live %d, "+
		"overtaken %d, broken connections %d, longest silence %v",
		r.Puts, r.PutsAcked, r.PutsRefused, r.PutsUnknown, r.Deletes, r.DeletesAcked, r.DeletesUnknown, r.Live,
		r.Overtaken, r.Broken, r.LongestUnanswered.Round(time.Millisecond))
	if r.InternalErrors > 0 {
		s += fmt.Sprintf(", internal errors %d", r.InternalErrors)
	}
	if r.Frozen > 0 {
		s += fmt.Sprintf(", clients frozen %d", r.Frozen)
	}
	if r.Leases > 0 {
		s += fmt.Sprintf(", leases %d, of the past refused %d, puts repeated %d, jobs moved %d, with another id %d",
			r.Leases, r.PastRefused, r.Repeated, r.Moved, r.Renamed)
	}
	if r.Full > 0 {
		s += fmt.Sprintf(", limits reached %d, groups paused %d", r.Full, r.Pauses)
	}
	s += fmt.Sprintf("; lost %d, back from the dead %d, deleted twice %d, put twice %d, ids reused %d",
		r.Lost, r.Undead, r.DeletedTwice, r.Twice, r.Reused)
	for _, rare := range []struct {
		name string
		n    int
	}{
		{"bodies changed", r.Changed}, {"strange jobs", r.Strange},
		{"miscounted", r.Miscounted}, {"garbled replies", r.Garbled},
		{"handed out though another client had it", r.Contested},
		{"taken from who had it", r.Robbed},
		{"leases that do not grow", r.Tokens},
		{"leases of the past that were obeyed", r.Obeyed},
		{"reserved though a limit or a pause held it", r.Exceeded},
		{"tubes whose jobs nobody gets", r.Stuck},
	} {
		if rare.n > 0 {
			s += fmt.Sprintf(", %s %d", rare.name, rare.n)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(r.Shared)) {
		s += fmt.Sprintf(", handed out again (%s) %d", why, r.Shared[why])
	}
	return s
}
