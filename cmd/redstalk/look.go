package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"redstalk/protocol/client"
)

func peekCommand() *cli.Command {
	return &cli.Command{
		Name: "peek", ArgsUsage: "[ID]", Action: withConn(arguments{0, 1}, peek),
		Usage: "print the body of a job, or of the next one of a tube",
		Flags: []cli.Flag{tubeFlag(), stateFlag("ready", "ready, delayed or buried: which is the next one")},
	}
}

func peek(t *task) error {
	command, doing := "peek "+t.Args().First(), "looking at job "+t.Args().First()
	if t.NArg() == 0 {
		state := t.String("state")
		if err := checkState(state, "ready", "delayed", "buried"); err != nil {
			return err
		}
		if err := t.use(t.tube()); err != nil {
			return err
		}
		command, doing = "peek-"+state, "looking at the next "+state+" job of "+t.tube()
	} else if _, err := jobID(t.Args().First()); err != nil {
		return err
	}
	return printFound(t, doing, command)
}

// printFound prints the job that a command finds.
func printFound(t *task, doing, command string) error {
	r, err := t.request(doing, command)
	if err != nil {
		return err
	}
	if r.Word != client.Found {
		return replyError(doing, r)
	}
	if !t.Bool("json") {
		return t.printBody(r.Body)
	}
	j := job{ID: r.ID}
	j.setBody(r.Body)
	page, err := t.page(fmt.Sprintf("looking at job %d", j.ID), fmt.Sprintf("stats-job %d", j.ID))
	if err != nil {
		return err
	}
	j.readPage(page)
	return t.printJSON(&j)
}

func findCommand() *cli.Command {
	return &cli.Command{
		Name: "find", ArgsUsage: "KEY", Action: withConn(arguments{1, 1}, find),
		Usage: "print the body of the job of a tube that has a key (extension put-tags)",
		Flags: []cli.Flag{tubeFlag()},
	}
}

func find(t *task) error {
	key := t.Args().First()
	if err := checkWord("the key", key); err != nil {
		return err
	}
	if err := t.require("put-tags", "find"); err != nil {
		return err
	}
	return printFound(t, fmt.Sprintf("looking for key %s in tube %s", key, t.tube()), "find "+t.tube()+" "+key)
}

func listCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Action: withConn(noArguments, list),
		Usage: "list jobs of a tube in the order in which they would come out (extension list-jobs)",
		Flags: []cli.Flag{
			tubeFlag(), stateFlag("ready", strings.Join(states, ", ")),
			&cli.UintFlag{Name: "count", Aliases: []string{"n"}, Value: 100, Usage: "`N`: at most so many"},
			&cli.BoolFlag{Name: "all", Usage: "all of them"},
		},
	}
}

// listedJob is a job in a page of list-jobs.
type listedJob struct {
	ID       uint64 `yaml:"id"`
	Pri      uint32 `yaml:"pri"`
	Age      int64  `yaml:"age"`
	DueMS    int64  `yaml:"due-ms"`
	Size     int    `yaml:"size"`
	TTR      uint32 `yaml:"ttr"`
	Key      string `yaml:"key"`
	Parked   string `yaml:"parked"`
	Reserves uint32 `yaml:"reserves"`
	Timeouts uint32 `yaml:"timeouts"`
	Releases uint32 `yaml:"releases"`
	Buries   uint32 `yaml:"buries"`
	Kicks    uint32 `yaml:"kicks"`
}

func (l *listedJob) job(tube, state string, now time.Time) *job {
	j := &job{
		ID: l.ID, Tube: tube, State: state, Priority: l.Pri, TTR: l.TTR, Age: l.Age, Size: l.Size, Key: l.Key, Parked: l.Parked,
		Reserves: l.Reserves, Timeouts: l.Timeouts, Releases: l.Releases, Buries: l.Buries, Kicks: l.Kicks,
	}
	j.setLeft(l.DueMS, now)
	return j
}

// pageOfJobs asks for at most count jobs, from a cursor on, which is "" for the first page. It
// returns the cursor of the next page, "" if there is none.
func (t *task) pageOfJobs(tube, state string, count uint64, cursor string) (jobs []*job, next string, err error) {
	command := strings.TrimSpace(fmt.Sprintf("list-jobs %s %s %d %s", tube, state, count, cursor))
	page, err := t.page("listing the jobs of "+tube, command)
	if err != nil {
		return nil, "", err
	}
	var in struct {
		Next string
		Jobs []listedJob
	}
	if err := yaml.Unmarshal([]byte(page), &in); err != nil {
		return nil, "", fmt.Errorf("reading a page of list-jobs: %w", err)
	}
	now := time.Now()
	for i := range in.Jobs {
		jobs = append(jobs, in.Jobs[i].job(tube, state, now))
	}
	return jobs, in.Next, nil
}

// maxPageJobs is how many jobs list-jobs gives at once.
const maxPageJobs = 1000

// allJobs hands over jobs of a tube, a page at a time, until there are no more, or ctx ends.
func (t *task) allJobs(tube, state string, most uint64, take func([]*job) error) error {
	for cursor := ""; most > 0 && t.Context.Context.Err() == nil; {
		jobs, next, err := t.pageOfJobs(tube, state, min(most, maxPageJobs), cursor)
		if err == nil {
			err = take(jobs)
		}
		if err != nil || next == "" {
			return err
		}
		cursor, most = next, most-min(most, uint64(len(jobs)))
	}
	return nil
}

func list(t *task) error {
	state, most := t.String("state"), uint64(t.Uint("count"))
	if err := checkState(state, states...); err != nil {
		return err
	}
	if err := t.require("list-jobs", "list"); err != nil {
		return err
	}
	if t.Bool("all") {
		most = 1 << 62
	}
	if t.Bool("json") {
		return t.allJobs(t.tube(), state, most, func(jobs []*job) error {
			for _, j := range jobs {
				if err := t.printJSON(j); err != nil {
					return err
				}
			}
			return nil
		})
	}
	b := &table{head: []string{"ID", "PRI", "AGE", "DUE IN", "SIZE", "TRIES", "KEY", "PARKED"}}
	err := t.allJobs(t.tube(), state, most, func(jobs []*job) error {
		for _, j := range jobs {
			b.add(fmt.Sprint(j.ID), fmt.Sprint(j.Priority), formatSeconds(j.Age), leftText(j), fmt.Sprint(j.Size), fmt.Sprint(j.Reserves), j.Key, j.Parked)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.print(t.out)
}

func leftText(j *job) string {
	if j.Left == 0 {
		return "-"
	}
	return (time.Duration(j.Left) * time.Millisecond).Round(time.Second / 10).String()
}

func tubesCommand() *cli.Command {
	return &cli.Command{
		Name: "tubes", Action: withConn(noArguments, tubes),
		Usage: "list the tubes with their jobs",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "names", Usage: "names only"}},
	}
}

// tubeStats are figures of a tube.
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
	Paused   uint64 `json:"paused_for"` // seconds that are left
}

func tubes(t *task) error {
	if t.Bool("names") {
		names, err := t.names("listing tubes", "list-tubes")
		if err != nil {
			return err
		}
		return t.result(names, func(w io.Writer) error { return printNames(w, names) })
	}
	all, err := t.allTubes()
	if err != nil {
		return err
	}
	return t.result(all, tableOfTubes(all).print)
}

// allTubes asks for the figures of all tubes.
func (t *task) allTubes() ([]tubeStats, error) {
	names, err := t.names("listing tubes", "list-tubes")
	if err != nil {
		return nil, err
	}
	all := []tubeStats{}
	err = t.pipeline("looking at tubes", len(names), func(out []byte, i int) []byte { return fmt.Appendf(out, "stats-tube %s\r\n", names[i]) }, func(i int, r *client.Reply) error {
		if r.Word == client.OK {
			all = append(all, tubeStatsOf(names[i], client.Page(r.Body)))
		} else if r.Word != client.NotFound { // the tube may just have gone
			return replyError("looking at tube "+names[i], r)
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
		Usage: "print what the server tells of itself, of a tube, or of a job",
		Flags: []cli.Flag{&cli.StringFlag{Name: "tube", Aliases: []string{"t"}, Usage: "`TUBE` that it is about"}},
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
	widths := b.widths()
	for _, row := range b.rows {
		if _, err := fmt.Fprintln(t.out, b.line(row, widths)); err != nil {
			return outputError(err)
		}
	}
	return nil
}

// entries are those of a page, in its order.
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

// dictionary is a page as JSON has it: numbers and truth values are that, all else is text.
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
