package ledger

import (
	"fmt"
	"strings"
	"time"
)

// maxFaults bounds how many faults are told in words.
const maxFaults = 20

// Report is the state of the books.
type Report struct {
	Puts, PutsAcked, PutsRefused, PutsUnknown int

	// Deletes that are in none of the others were overtaken.
	Deletes, DeletesAcked, DeletesUnknown int

	Live           int // jobs that were there at the last audit
	Overtaken      int // NOT_FOUND for the holder of a job
	InternalErrors int // replies; the outcomes are unknown
	Broken         int // connections

	// LongestSilence is how long a client asked in vain at most:
	// INTERNAL_ERROR is no answer, and a reserve's timeout is not counted.
	LongestSilence time.Duration

	// What a server that keeps its word has none of; see the package comment.
	Lost, Undead, Twice, Reused, Changed, Strange, Miscounted, Garbled int

	// Faults tells the first of them in words.
	Faults []string
}

// Report returns how things stand.
func (l *Ledger) Report() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.report
	r.Faults = append([]string(nil), r.Faults...)
	return r
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
		r.Overtaken, r.Broken, r.LongestSilence.Round(time.Millisecond))
	if r.InternalErrors > 0 {
		s += fmt.Sprintf(", internal errors %d", r.InternalErrors)
	}
	s += fmt.Sprintf("; lost %d, back from the dead %d, twice %d", r.Lost, r.Undead, r.Twice)
	for _, rare := range []struct {
		name string
		n    int
	}{
		{"ids reused", r.Reused}, {"bodies changed", r.Changed}, {"strange jobs", r.Strange},
		{"miscounted", r.Miscounted}, {"garbled replies", r.Garbled},
	} {
		if rare.n > 0 {
			s += fmt.Sprintf(", %s %d", rare.name, rare.n)
		}
	}
	return s
}
