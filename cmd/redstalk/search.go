package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"redstalk/tube/filter"
)

func searchCommand() *cli.Command {
	return &cli.Command{
		Name: "search", ArgsUsage: "[TEXT]", Action: withConn(arguments{0, 1}, search),
		Usage: "find jobs by their id, or a text in key, group, batch, schedule, meta, reason or body (extension list-jobs)",
		Description: "Examines all jobs of the server, or of some tubes, and shows for each of these places which jobs have the text there, and how many. Names of tubes, schedules and batches " +
			"are searched, too. Without a TEXT, shows the jobs that match the flags. A TEXT that is a JSON object or array is compared by value with each value in bodies that are JSON. " +
			"Ctrl-C ends the search and shows what it has found.",
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{Name: "tube", Aliases: []string{"t"}, Usage: "search only this `TUBE`; can be repeated"},
			&cli.StringSliceFlag{Name: "state", Usage: "search only this `STATE`; can be repeated"},
			&cli.UintFlag{Name: "count", Aliases: []string{"n"}, Value: 20, Usage: "show at most `N` jobs for each place"},
			&cli.BoolFlag{Name: "all", Usage: "show all jobs"},
		}, filterFlags()...),
	}
}

// places are where a text is found, in the order of the output. Jobs that match flags alone are last.
var places = []filter.Found{filter.InID, filter.InKey, filter.InGroup, filter.InBatch, filter.InSchedule, filter.InMeta, filter.InReason, filter.InBody, filter.Nowhere}

// finder is one run of search.
type finder struct {
	*task
	text   string
	most   int // jobs that are shown for each place
	counts map[filter.Found]int
	shown  map[filter.Found][]foundJob
	names  [][2]string // of what is no job: what it is, and its name
}

// foundName is a tube, schedule or batch that was found, in JSON.
type foundName struct {
	In   string `json:"in"`
	Name string `json:"name"`
}

func search(t *task) error {
	s := &finder{task: t, text: t.Args().First(), most: int(t.Uint("count")), counts: make(map[filter.Found]int), shown: make(map[filter.Found][]foundJob)}
	if t.Bool("all") {
		s.most = 1 << 62
	}
	f, err := t.jobFilter(s.text)
	if err != nil {
		return err
	}
	if f == nil {
		return usage("search needs a TEXT, or a flag that filters, such as --group: redstalk search --help")
	}
	in := t.StringSlice("state")
	for _, state := range in {
		if err := checkState(state, states...); err != nil {
			return err
		}
	}
	if len(in) == 0 {
		in = states
	}
	if err := t.require("list-jobs", "search"); err != nil {
		return err
	}
	if err := s.searchJobs(f, in); err != nil {
		return err
	}
	if err := s.print(); err != nil {
		return err
	}
	if t.Context.Context.Err() != nil {
		return interrupted("not all jobs were examined")
	}
	if len(s.names) == 0 && len(s.counts) == 0 {
		return notFound("nothing was found")
	}
	return nil
}

// searchJobs searches jobs, and the names of what is no job, too, if the tubes are not chosen.
func (s *finder) searchJobs(f *jobFilter, in []string) error {
	all, err := s.allTubes()
	if err != nil {
		return err
	}
	if chosen := s.StringSlice("tube"); len(chosen) > 0 {
		if err := checkTubes(chosen); err != nil {
			return err
		}
		if missing, err := s.firstMissing(chosen); err != nil || missing != nil {
			return cmp.Or(err, missing)
		}
		all = slices.DeleteFunc(all, func(t tubeStats) bool { return !slices.Contains(chosen, t.Name) })
	} else if s.text != "" {
		if err := s.findNames(all); err != nil {
			return err
		}
	}
	counts, sum := make([]map[string]uint64, len(all)), uint64(0)
	for i := range all {
		counts[i] = map[string]uint64{"ready": all[i].Ready, "delayed": all[i].Delayed, "reserved": all[i].Reserved, "buried": all[i].Buried}
		for _, state := range in {
			sum += counts[i][state]
		}
	}
	bar := startProgress(s.task, "searching", sum)
	defer bar.end()
	for i := range all {
		for _, state := range in {
			if counts[i][state] == 0 {
				continue
			}
			if err := s.eachMatch(all[i].Name, []string{state}, f, bar, 1<<62, s.take); err != nil {
				return err
			}
		}
	}
	return nil
}

// findNames searches the names of tubes, schedules and batches.
func (s *finder) findNames(all []tubeStats) error {
	has := func(kind, name string) {
		if strings.Contains(strings.ToLower(name), strings.ToLower(s.text)) {
			s.names = append(s.names, [2]string{kind, name})
		}
	}
	for i := range all {
		has("tube", all[i].Name)
	}
	for _, kind := range [][3]string{{"schedule", "list-schedules", "schedules"}, {"batch", "list-batches", "batches"}} {
		if there, err := s.supports(kind[2]); err != nil || !there {
			return err
		}
		err := eachListed(s.task, "listing "+kind[2], kind[1], kind[2], func(one *struct{ Name string }) error {
			has(kind[0], one.Name)
			return nil
		})
		if err != nil && codeOf(err) != exitForbidden { // what the user may not read is not searched
			return err
		}
	}
	return nil
}

func (s *finder) take(found []foundJob) error {
	for _, j := range found {
		if s.counts[j.In]++; len(s.shown[j.In]) < s.most {
			s.shown[j.In] = append(s.shown[j.In], j)
		}
	}
	return nil
}

// print prints what was found, by the place where it was.
func (s *finder) print() error {
	b := &table{head: []string{"IN", "ID", "TUBE", "STATE", "KEY", "GROUP", "REASON", "BODY"}, left: 1, text: 2}
	for _, name := range s.names {
		if s.Bool("json") {
			if err := s.printJSON(foundName{name[0], name[1]}); err != nil {
				return err
			}
		}
		b.add(name[0], "", name[1], "", "", "", "", "")
	}
	more := ""
	if s.unread {
		s.infof("redstalk: bodies, meta and reasons were not searched where you lack the right read")
	}
	for _, at := range places {
		some, err := s.withExcerpts(s.shown[at])
		if err != nil {
			return err
		}
		for _, j := range some {
			if s.Bool("json") {
				if err := s.printJSON(&j); err != nil {
					return err
				}
			}
			b.add(cmp.Or(string(at), "job"), fmt.Sprint(j.ID), j.Tube, j.State, j.Key, j.Group, reasonText(j.job), oneLine(j.Excerpt))
		}
		if hidden := s.counts[at] - len(some); hidden > 0 {
			more += fmt.Sprintf("; %d more in %s", hidden, cmp.Or(string(at), "jobs"))
		}
	}
	if !s.Bool("json") && len(b.rows) > 0 {
		if err := b.print(s.out); err != nil {
			return err
		}
	}
	if more != "" {
		s.infof("redstalk: %s shown%s: --all shows them", nounFor(len(b.rows), "row"), more)
	}
	return nil
}
