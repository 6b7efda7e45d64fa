package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// result is the result of a round.
type result struct {
	drawn      []*fault
	unanswered time.Duration // the longest that a client was without an answer
	elsewhere  time.Duration // the same, of clients of instances to which nothing was done
	back       time.Duration // from the beginning until all instances served all tubes
	errors     int           // INTERNAL_ERROR
	hasty      bool          // before its time
	stalled    bool          // nothing at all continued for a while, so times say nothing
}

func namesOf(faults []*fault) (names []string) {
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

func (r result) String() string {
	s := fmt.Sprintf("%s: longest silence %s s, elsewhere %s s; service after %s s",
		strings.Join(namesOf(r.drawn), " + "), inSeconds(r.unanswered), inSeconds(r.elsewhere), inSeconds(r.back))
	if r.errors > 0 {
		s += fmt.Sprintf("; %d INTERNAL_ERROR", r.errors)
	}
	if r.stalled {
		s += " (the machine stood still)"
	}
	return s
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// ledgerTable is the ledger's figures, with a row for each way of running Redis.
func ledgerTable(runs []*chaos) string {
	var b strings.Builder
	b.WriteString("| | rounds (with two faults) | jobs acknowledged | deletes acknowledged | lost | back from the dead | deleted twice | put twice | ids given twice | " +
		"handed out again without a reason | leases of the past obeyed | `INTERNAL_ERROR` before its time | faults by `fsck` |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, c := range runs {
		double, hasty, record := 0, 0, c.record.Report()
		for _, r := range c.results {
			if len(r.drawn) > 1 {
				double++
			}
			if r.hasty {
				hasty++
			}
		}
		fmt.Fprintf(&b, "| %s | %d (%d) | %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", c.title, len(c.results), double,
			thousands(record.PutsAcked), thousands(record.DeletesAcked), record.Lost, record.Undead, record.DeletedTwice, record.Twice, record.Reused,
			record.Contested+record.Robbed, record.Obeyed+record.Tokens, hasty, c.unsound)
	}
	return b.String()
}

// ledgerNotes is the text below ledgerTable: excused events, and commands without a
// reply.
func ledgerNotes(runs []*chaos) string {
	var b strings.Builder
	for _, c := range runs {
		errors, still, record := 0, 0, c.record.Report()
		for _, r := range c.results {
			errors += r.errors
			if r.stalled {
				still++
			}
		}
		fmt.Fprintf(&b, "%s: leases %s, of the past refused %s, limits of groups reached %s, puts repeated as their reply was lost %d, jobs with another id %s; not known to their clients are %d puts and %d deletes; `INTERNAL_ERROR` %d; the machine stood still in %d rounds",
			c.name, thousands(record.Leases), thousands(record.PastRefused), thousands(record.Full), record.Repeated, thousands(record.Renamed), record.PutsUnknown, record.DeletesUnknown, errors, still)
		for _, why := range slices.Sorted(maps.Keys(record.Shared)) {
			fmt.Fprintf(&b, "; handed out again, %s: %d", why, record.Shared[why])
		}
		b.WriteString(".\n")
	}
	return b.String()
}

// unansweredTable has a row for each fault, in the order of their definition,
// from rounds with no other fault in which the machine did not stand still,
// and a column for each way of running Redis.
func unansweredTable(runs []*chaos) string {
	var b, rule strings.Builder
	var names []string
	b.WriteString("| fault |")
	for _, c := range runs {
		fmt.Fprintf(&b, " %s |", c.name)
		rule.WriteString("---|")
		for _, f := range c.faults {
			if !slices.Contains(names, f.name) {
				names = append(names, f.name)
			}
		}
	}
	fmt.Fprintf(&b, "\n|---|%s\n", rule.String())
	for _, name := range names {
		times, elsewhere := "", ""
		for _, c := range runs {
			own, others := c.unanswered(name)
			times += " " + spread(own) + " |"
			elsewhere += " " + spread(others) + " |"
		}
		switch {
		case strings.Trim(times, " |") == "": // it did not happen alone
		case strings.Trim(elsewhere, " |") == "":
			fmt.Fprintf(&b, "| %s |%s\n", name, times)
		default:
			fmt.Fprintf(&b, "| %s: clients of this instance |%s\n| the same: clients of the others |%s\n", name, times, elsewhere)
		}
	}
	return b.String()
}

// unanswered returns how long clients were without an answer in rounds with this
// fault; and if it concerns one instance, the same for clients of the others.
func (c *chaos) unanswered(name string) (all, elsewhere []time.Duration) {
	for _, r := range c.results {
		if len(r.drawn) > 1 || r.drawn[0].name != name || r.stalled {
			continue
		}
		all = append(all, r.unanswered)
		if r.drawn[0].traits&aside != 0 {
			elsewhere = append(elsewhere, r.elsewhere)
		}
	}
	return all, elsewhere
}

// spread is the minimum, the median and the maximum of some times, in seconds.
func spread(times []time.Duration) string {
	switch slices.Sort(times); len(times) {
	case 0:
		return ""
	case 1:
		return "**" + inSeconds(times[0]) + "**"
	}
	return fmt.Sprintf("%s – **%s** – %s", inSeconds(times[0]), inSeconds(times[len(times)/2]), inSeconds(times[len(times)-1]))
}

// thousands writes a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
