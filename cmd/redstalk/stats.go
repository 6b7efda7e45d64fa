package main

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

func tubesCommand() *cli.Command {
	return &cli.Command{
		Name: "tubes", Action: withConn(noArguments, tubes),
		Usage: "list the tubes with their jobs",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "names", Usage: "names only"},
			filterFlag(),
			&cli.StringFlag{Name: "sort", Value: "name", Usage: "sort by `COLUMN`: name, ready, urgent, reserved, delayed, buried, waiting or total; numbers with the largest first"},
		},
	}
}

// tubeStats are the counters of a tube.
type tubeStats struct {
	Name     string `json:"name"`
	Ready    uint64 `json:"ready"`
	Urgent   uint64 `json:"urgent"`
	Reserved uint64 `json:"reserved"`
	Delayed  uint64 `json:"delayed"`
	Buried   uint64 `json:"buried"`
	Total    uint64 `json:"total"` // put since the tube exists
	Deletes  uint64 `json:"deletes"`
	Using    uint64 `json:"using"`
	Watching uint64 `json:"watching"`
	Waiting  uint64 `json:"waiting"`
	Paused   uint64 `json:"paused_for"` // remaining seconds
}

// filterFlag selects tubes by their names.
func filterFlag() cli.Flag {
	return &cli.StringFlag{Name: "filter", Usage: "only tubes whose names match this `PATTERN`, such as mail*, or contain it"}
}

// matches reports whether a name matches the pattern of --filter: it has *, ? or [, or else the name contains it.
func matches(pattern, name string) bool {
	if !strings.ContainsAny(pattern, "*?[") {
		return strings.Contains(name, pattern)
	}
	is, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00")) // a slash is no separator here
	return is && err == nil
}

// columns are the numbers by which tubes can be sorted.
var columns = map[string]func(s *tubeStats) uint64{
	"name":     func(*tubeStats) uint64 { return 0 },
	"ready":    func(s *tubeStats) uint64 { return s.Ready },
	"urgent":   func(s *tubeStats) uint64 { return s.Urgent },
	"reserved": func(s *tubeStats) uint64 { return s.Reserved },
	"delayed":  func(s *tubeStats) uint64 { return s.Delayed },
	"buried":   func(s *tubeStats) uint64 { return s.Buried },
	"waiting":  func(s *tubeStats) uint64 { return s.Waiting },
	"total":    func(s *tubeStats) uint64 { return s.Total },
}

func tubes(t *task) error {
	by := columns[t.String("sort")]
	if by == nil {
		return usage("--sort cannot be %q", t.String("sort"))
	}
	if t.Bool("names") {
		names, err := t.names("listing tubes", "list-tubes")
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !matches(t.String("filter"), name) })
		slices.Sort(names)
		return t.result(names, func(w io.Writer) error { return printNames(w, names) })
	}
	all, err := t.allTubes()
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b tubeStats) int { return cmp.Or(cmp.Compare(by(&b), by(&a)), cmp.Compare(a.Name, b.Name)) })
	return t.result(all, tableOfTubes(all).print)
}

// allTubes requests the counters of all tubes that --filter selects.
func (t *task) allTubes() ([]tubeStats, error) {
	names, err := t.names("listing tubes", "list-tubes")
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !matches(t.String("filter"), name) })
	all := []tubeStats{}
	err = t.pipeline("reading tubes", len(names), func(out []byte, i int) []byte { return fmt.Appendf(out, "stats-tube %s\r\n", names[i]) }, func(i int, r *client.Reply) error {
		if r.Word == client.OK {
			all = append(all, tubeStatsOf(names[i], client.Page(r.Body)))
		} else if r.Word != client.NotFound { // the tube may just have gone
			return replyError("reading tube "+names[i], r)
		}
		return nil
	})
	return all, err
}

func tubeStatsOf(name string, p client.Page) tubeStats {
	current := func(what string) uint64 { return numberOf(p, "current-"+what) }
	return tubeStats{
		Name: name, Ready: current("jobs-ready"), Urgent: current("jobs-urgent"), Reserved: current("jobs-reserved"),
		Delayed: current("jobs-delayed"), Buried: current("jobs-buried"), Total: numberOf(p, "total-jobs"), Deletes: numberOf(p, "cmd-delete"),
		Using: current("using"), Watching: current("watching"), Waiting: current("waiting"), Paused: numberOf(p, "pause-time-left"),
	}
}

func tableOfTubes(all []tubeStats) *table {
	b := &table{head: []string{"TUBE", "READY", "URGENT", "RESERVED", "DELAYED", "BURIED", "WAITING", "TOTAL", "PAUSED"}, left: 1}
	for i := range all {
		s := &all[i]
		paused := "-"
		if s.Paused > 0 {
			paused = formatSeconds(int64(s.Paused))
		}
		b.add(s.Name, grouped(s.Ready), grouped(s.Urgent), grouped(s.Reserved), grouped(s.Delayed), grouped(s.Buried), grouped(s.Waiting), grouped(s.Total), paused)
	}
	return b
}

func statsCommand() *cli.Command {
	return &cli.Command{
		Name: "stats", ArgsUsage: "[ID]", Action: withConn(arguments{0, 1}, stats),
		Usage: "print the statistics of the server, of a tube, or of a job",
		Flags: []cli.Flag{&cli.StringFlag{Name: "tube", Aliases: []string{"t"}, Usage: "print those of this `TUBE`"}},
	}
}

func stats(t *task) error {
	command := "stats"
	if t.NArg() > 0 && t.tube() != "" {
		return usage("stats takes either the id of a job or --tube")
	}
	if t.NArg() > 0 {
		if _, err := jobID(t.Args().First()); err != nil {
			return err
		}
		command = "stats-job " + t.Args().First()
	} else if t.tube() != "" {
		command = "stats-tube " + t.tube()
	}
	page, err := t.page("asking for "+command, command)
	if err != nil {
		return err
	}
	return t.printPage(page)
}

// printPage prints a page that is a dictionary.
func (t *task) printPage(page client.Page) error {
	if t.Bool("json") {
		return t.printJSON(dictionary(page))
	}
	b := &table{head: []string{"", ""}, left: 2}
	for key, value := range entries(page) {
		b.add(key, unquoted(value))
	}
	return b.printRows(t.out)
}

// entries iterates over the entries of a page, in its order.
func entries(page client.Page) func(yield func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		for line := range strings.Lines(string(page)) {
			key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			if ok && !yield(key, value) {
				return
			}
		}
	}
}

// dictionary returns a page for JSON: numbers and booleans have their type, everything else is a string.
func dictionary(page client.Page) map[string]any {
	values := make(map[string]any)
	for key, value := range entries(page) {
		switch n, err := strconv.ParseUint(value, 10, 64); {
		case key != "id" && key != "name" && key != "tube" && err == nil:
			values[key] = n
		case value == "true" || value == "false":
			values[key] = value == "true"
		default:
			values[key] = unquoted(value)
		}
	}
	if id, err := strconv.ParseUint(fmt.Sprint(values["id"]), 10, 64); err == nil && values["pri"] != nil {
		values["id"] = id // of a job; that of a server is text
	}
	return values
}
