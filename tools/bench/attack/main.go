package attack

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// An attack is one row of the table, or several.
type attack struct {
	name string
	what string
	goal string
	run  func(*run) error
}

// attacks are all attacks, in the order in which they run.
var attacks = slices.Concat(waits, large, bursts, tubes, holders, moves, millions, checks, overHTTP, pushes, costs)

// A run is one run of an attack: its server program and its results.
type run struct {
	bin     string
	engine  string // the only stand of those with a twin, by its name; "": all
	results []string
}

// report adds a line to the results. It also prints the line at once, since an attack can take
// minutes.
func (r *run) report(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	fmt.Fprintln(os.Stderr, line)
	r.results = append(r.results, line)
}

// List prints the names of the attacks and what they are.
func List(to io.Writer) {
	for _, a := range attacks {
		fmt.Fprintf(to, "%-20s %s\n", a.name, a.what)
	}
}

// Run runs attacks on a redstalkd, the program at bin, and prints a row after each. only are their
// names, with commas; empty: all. on is the only engine of the attacks with a million jobs; empty: all.
func Run(bin, only, on string) error {
	var names []string
	if only != "" {
		names = strings.Split(only, ",")
	}
	for _, name := range names {
		if !slices.ContainsFunc(attacks, func(a attack) bool { return a.name == name }) {
			return fmt.Errorf("there is no attack %q", name)
		}
	}
	var failed, left []string
	for _, a := range attacks {
		if names != nil && !slices.Contains(names, a.name) {
			left = append(left, a.name)
			continue
		}
		begun := time.Now()
		r := &run{bin: bin, engine: on}
		if err := a.run(r); err != nil {
			r.report("FAILED: %v", err)
			failed = append(failed, a.name)
		}
		show(a, r, time.Since(begun))
	}
	if left != nil {
		fmt.Println("not requested:", strings.Join(left, ", "))
	}
	if failed != nil {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

func show(a attack, r *run, took time.Duration) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s: %s (goal: %s) [%s]\n", a.name, a.what, a.goal, format(took))
	for _, line := range r.results {
		fmt.Fprintf(w, "\t%s\n", line)
	}
	w.Flush()
}

// onEach runs an attack on one instance with each of the engines.
func (r *run) onEach(which []engine, flags []string, attack func(*cluster) error) error {
	for _, e := range which {
		if err := r.on(e, 1, flags, attack); err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
	}
	return nil
}

// on runs an attack on a cluster of n instances.
func (r *run) on(e engine, n int, flags []string, attack func(*cluster) error) error {
	s, err := newCluster(r.bin, e, n, flags...)
	if err != nil {
		return err
	}
	defer s.end()
	return attack(s)
}
