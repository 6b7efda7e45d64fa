package main

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
)

func listCommand() *cli.Command {
	return &cli.Command{
		Name: "list", ArgsUsage: "[TUBE]", Action: withConn(arguments{0, 1}, list),
		Usage:       "list the jobs of a tube in their order of delivery, or only some of them (extension list-jobs)",
		Description: "REASON is how far its worker is, the size of its checkpoint, what holds a job that waits, where a dead letter comes from, why the server has parked a job, and the reason of the last failure, as far as each is known.",
		Flags: append([]cli.Flag{
			tubeFlag(), stateFlag("", strings.Join(states, ", ")+" (default: ready; with a filter, all of them)"),
			&cli.UintFlag{Name: "count", Aliases: []string{"n"}, Value: 100, Usage: "list at most `N` jobs"},
			&cli.BoolFlag{Name: "all", Usage: "list all jobs"},
		}, filterFlags()...),
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
	Group    string `yaml:"group"`
	Batch    string `yaml:"batch"`
	After    string `yaml:"after"`
	AfterAll string `yaml:"after-all"`
	Schedule string `yaml:"schedule"`
	Held     string `yaml:"held"`
	Parked   string `yaml:"parked"`
	FailedMS int64  `yaml:"failed-ms"`
	Reason   string `yaml:"reason"`
	FromTube string `yaml:"from-tube"`
	FromID   uint64 `yaml:"from-id"`
	Reserves uint32 `yaml:"reserves"`
	Timeouts uint32 `yaml:"timeouts"`
	Releases uint32 `yaml:"releases"`
	Buries   uint32 `yaml:"buries"`
	Kicks    uint32 `yaml:"kicks"`

	Progress        string `yaml:"progress"`
	CheckpointBytes int    `yaml:"checkpoint-bytes"`
}

func (l *listedJob) job(tube, state string, now time.Time) *job {
	j := &job{
		ID: l.ID, Tube: tube, State: state, Priority: l.Pri, TTR: l.TTR, Age: l.Age, Size: l.Size, Key: l.Key, Group: l.Group, Held: l.Held, Parked: l.Parked,
		Failed: l.FailedMS, Reason: l.Reason, FromTube: l.FromTube, FromID: l.FromID,
		Reserves: l.Reserves, Timeouts: l.Timeouts, Releases: l.Releases, Buries: l.Buries, Kicks: l.Kicks,
	}
	j.Batch, j.After, j.AfterAll, j.Schedule = l.Batch, l.After, l.AfterAll, l.Schedule
	j.Progress, j.CheckpointBytes = l.Progress, l.CheckpointBytes
	j.setLeft(l.DueMS, now)
	return j
}

// listedFields are the indices of the fields of listedJob by their names in a page.
var listedFields = func() map[string]int {
	all := make(map[string]int)
	for i, f := range reflect.VisibleFields(reflect.TypeFor[listedJob]()) {
		all[f.Tag.Get("yaml")] = i
	}
	return all
}()

// readListed reads a page of list-jobs. Most lines are read without the YAML decoder, which would take most of the time of a search.
func readListed(page string) ([]listedJob, string, error) {
	head, lines, _ := strings.Cut(page, "\njobs:\n")
	var in struct {
		Next string
		Jobs []listedJob
	}
	for line := range strings.Lines(lines) {
		in.Jobs = append(in.Jobs, listedJob{})
		if !in.Jobs[len(in.Jobs)-1].readLine(strings.TrimSpace(line)) {
			in.Jobs = nil
			err := yaml.Unmarshal([]byte(page), &in)
			return in.Jobs, in.Next, err
		}
	}
	err := yaml.Unmarshal([]byte(head), &in)
	return in.Jobs, in.Next, err
}

// readLine reads a line such as - {id: 7, key: "k"}. It returns false for what only a YAML decoder can read.
func (l *listedJob) readLine(line string) bool {
	rest, ok := strings.CutPrefix(line, "- {")
	for ok && rest != "}" {
		var name, value string
		if name, rest, ok = strings.Cut(rest, ": "); !ok {
			return false
		}
		if text, is := strings.CutPrefix(rest, `"`); is {
			value, rest, ok = strings.Cut(text, `"`)
			ok = ok && !strings.Contains(value, `\`)
		} else {
			end := strings.IndexAny(rest, ",}")
			value, rest, ok = rest[:max(end, 0)], rest[max(end, 0):], end > 0 && !strings.ContainsAny(rest[:end], `[{"'`)
		}
		if at, known := listedFields[name]; !ok || known && !setField(reflect.ValueOf(l).Elem().Field(at), value) {
			return false
		}
		rest = strings.TrimPrefix(rest, ", ")
	}
	return ok
}

// setField sets a field to a value as it is written. It returns false if the value is not one of its type.
func setField(field reflect.Value, value string) bool {
	var err error
	switch {
	case field.Kind() == reflect.String:
		field.SetString(value)
	case field.CanInt():
		var n int64
		n, err = strconv.ParseInt(value, 10, 64)
		field.SetInt(n)
	default:
		var n uint64
		n, err = strconv.ParseUint(value, 10, 64)
		field.SetUint(n)
	}
	return err == nil
}

// pageOfJobs requests at most count jobs, from a cursor on, which is "" for the first page. It
// returns the cursor of the next page, or "" if there is none.
func (t *task) pageOfJobs(tube, state string, count uint64, cursor string) (jobs []*job, next string, err error) {
	command := strings.TrimSpace(fmt.Sprintf("list-jobs %s %s %d %s", tube, state, count, cursor))
	page, err := t.page("listing the jobs of "+tube, command)
	if err != nil {
		return nil, "", err
	}
	listed, next, err := readListed(string(page))
	if err != nil {
		return nil, "", fmt.Errorf("reading a page of list-jobs: %w", err)
	}
	now := time.Now()
	for i := range listed {
		jobs = append(jobs, listed[i].job(tube, state, now))
	}
	return jobs, next, nil
}

// maxPageJobs is the largest number of jobs in a page of list-jobs.
const maxPageJobs = 1000

// allJobs passes the jobs of a tube to take, a page at a time, until there are no more or ctx is done.
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
	name := cmp.Or(t.Args().First(), t.tube())
	if t.NArg() > 0 && t.IsSet("tube") {
		return usage("list takes one tube")
	}
	if err := checkTubes([]string{name}); err != nil {
		return err
	}
	f, err := t.jobFilter("")
	if err != nil {
		return err
	}
	in := states[:1]
	switch state := t.String("state"); {
	case state != "":
		in = []string{state}
		if err := checkState(state, states...); err != nil {
			return err
		}
	case f != nil:
		in = states
	}
	if err := t.require("list-jobs", "list"); err != nil {
		return err
	}
	return t.listIn(name, in, f)
}

// listIn lists the jobs of a tube in some states.
func (t *task) listIn(name string, in []string, f *jobFilter) error {
	most := uint64(t.Uint("count"))
	if t.Bool("all") {
		most = 1 << 62
	}
	b := &table{head: []string{"ID", "PRI", "AGE", "DUE IN", "SIZE", "TRIES", "KEY", "REASON"}}
	if len(in) > 1 {
		b.head = slices.Insert(b.head, 1, "STATE")
	}
	found := false
	err := t.eachMatch(name, in, f, nil, most, func(jobs []foundJob) error {
		for _, j := range jobs {
			found = true
			if t.Bool("json") {
				if err := t.printJSON(&j); err != nil {
					return err
				}
				continue
			}
			row := []string{fmt.Sprint(j.ID), fmt.Sprint(j.Priority), formatSeconds(j.Age), leftText(j.job), fmt.Sprint(j.Size), fmt.Sprint(j.Reserves), j.Key, stateReasonText(j.job)}
			if len(in) > 1 {
				row = slices.Insert(row, 1, j.State)
			}
			b.add(row...)
		}
		return nil
	})
	if err == nil && !found {
		err = t.checkTube(name)
	}
	if err != nil || t.Bool("json") {
		return err
	}
	return b.print(t.out)
}

// eachMatch passes the jobs of a tube in some states that match to take, a page at a time, up to most of them. bar counts the jobs that were
// examined.
func (t *task) eachMatch(name string, in []string, f *jobFilter, bar *progress, most uint64, take func([]foundJob) error) error {
	page := uint64(1 << 62)
	if f == nil {
		page = most
	}
	for _, state := range in {
		err := t.allJobs(name, state, page, func(jobs []*job) error {
			bar.add(uint64(len(jobs)))
			return t.takeMatching(f, jobs, &most, take)
		})
		if err != nil {
			return ignoreEnough(err)
		}
	}
	return nil
}

// takeMatching passes those of listed jobs that match to take, up to most of them, which it counts down. It returns errEnough at 0.
func (t *task) takeMatching(f *jobFilter, jobs []*job, most *uint64, take func([]foundJob) error) error {
	found, err := t.matching(f, jobs)
	if err != nil {
		return err
	}
	found = found[:min(uint64(len(found)), *most)]
	*most -= uint64(len(found))
	return cmp.Or(take(found), t.endAt(*most))
}

// stateReasonText is how far a job is, why it waits, and why it has failed.
func stateReasonText(j *job) string {
	words := []string{oneLine(j.Progress)}
	if j.CheckpointBytes > 0 {
		words = append(words, "checkpoint: "+nounFor(j.CheckpointBytes, "byte"))
	}
	if j.Held != "" {
		words = append(words, "held: "+j.Held)
	}
	words = slices.DeleteFunc(append(words, reasonText(j)), func(word string) bool { return word == "" })
	return strings.Join(words, "; ")
}

func leftText(j *job) string {
	if j.Left == 0 {
		return "-"
	}
	return (time.Duration(j.Left) * time.Millisecond).Round(time.Second / 10).String()
}
