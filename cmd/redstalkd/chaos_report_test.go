package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"
)

// result is what came of a round.
type result struct {
	name      string        // of its fault, or both
	silence   time.Duration // the longest that a client was without an answer
	elsewhere time.Duration // the same, of clients of instances to which nothing was done
	back      time.Duration // from the beginning until all instances served all tubes
	errors    int           // INTERNAL_ERROR
	stalled   bool          // nothing at all went on for a while, so times say nothing
}

func (r result) String() string {
	s := fmt.Sprintf("%s: longest silence %v, elsewhere %v; service after %v", r.name, brief(r.silence), brief(r.elsewhere), brief(r.back))
	if r.errors > 0 {
		s += fmt.Sprintf("; %d INTERNAL_ERROR", r.errors)
	}
	if r.stalled {
		s += " (the machine stood still)"
	}
	return s
}

func brief(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

const twoAtOnce = "two of these at once"

func nameOf(faults []*fault) string {
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	return strings.Join(names, " + ")
}

// table is the results by kind of fault, and the books. Rounds in which the
// machine stood still count, but their times do not.
func (c *chaos) table() string {
	kinds := make(map[string][]result)
	for _, r := range c.results {
		name := r.name
		if strings.Contains(name, " + ") {
			name = twoAtOnce
		}
		kinds[name] = append(kinds[name], r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d rounds\n| fault | rounds | longest silence | of clients elsewhere | until all served | INTERNAL_ERROR |\n|---|--:|---|---|---|--:|\n", len(c.results))
	names := slices.SortedFunc(maps.Keys(kinds), func(x, y string) int {
		if (x == twoAtOnce) != (y == twoAtOnce) {
			return len(y) - len(x) + 1000*strings.Compare(y, x)
		}
		return strings.Compare(x, y)
	})
	for _, name := range names {
		all := kinds[name]
		errors := 0
		for _, r := range all {
			errors += r.errors
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %d |\n", name, len(all),
			spread(all, func(r result) time.Duration { return r.silence }),
			spread(all, func(r result) time.Duration { return r.elsewhere }),
			spread(all, func(r result) time.Duration { return r.back }), errors)
	}
	fmt.Fprint(&b, c.books.Report())
	return b.String()
}

// spread is the least, the middle and the most of some times.
func spread(all []result, of func(result) time.Duration) string {
	var times []time.Duration
	for _, r := range all {
		if !r.stalled {
			times = append(times, of(r))
		}
	}
	if slices.Sort(times); len(times) == 0 {
		return ""
	}
	if len(times) == 1 {
		return "**" + brief(times[0]) + "**"
	}
	return fmt.Sprintf("%.2f – **%.2f** – %s", times[0].Seconds(), times[len(times)/2].Seconds(), brief(times[len(times)-1]))
}

// works returns whether puts in all tubes are acknowledged at an address.
func (c *chaos) works(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	var all strings.Builder
	for i := range c.tubes {
		fmt.Fprintf(&all, "use probe-%d\r\nput 0 0 60 1\r\nx\r\n", i)
	}
	if _, err := io.WriteString(conn, all.String()); err != nil {
		return false
	}
	in := bufio.NewReader(conn)
	for range c.tubes {
		for _, want := range []string{"USING ", "INSERTED "} {
			if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
				return false
			}
		}
	}
	return true
}
