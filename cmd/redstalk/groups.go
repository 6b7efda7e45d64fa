package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"redstalk/protocol"
	"redstalk/tube/field"
)

func groupsCommand() *cli.Command {
	return &cli.Command{
		Name: "groups", Action: withConn(noArguments, groups),
		Usage:       "list the groups of a tube (extension groups)",
		Description: "LIMIT is the most reserved jobs; HELD is why its ready jobs wait: concurrency, rate or paused.",
		Flags: []cli.Flag{
			tubeFlag(),
			&cli.UintFlag{Name: "count", Aliases: []string{"n"}, Value: 100, Usage: "list at most `N` groups"},
			&cli.BoolFlag{Name: "all", Usage: "list all groups"},
		},
	}
}

func groupCommand() *cli.Command {
	var tags strings.Builder
	for _, tag := range protocol.TagsIn(field.InGroup) {
		fmt.Fprintf(&tags, " %s:%s", tag.Name, tag.Kind)
	}
	return &cli.Command{
		Name: "group", ArgsUsage: "GROUP [TAG:VALUE...]", Action: withConn(anyNumber, group),
		Usage:       "show a group of a tube, or set what applies to it instead of the tube's policy (extension groups)",
		Description: "Tags:" + tags.String() + ". They replace what was set before. Example: concurrency:3 rate:100/m,1000/h.",
		Flags:       []cli.Flag{tubeFlag(), &cli.BoolFlag{Name: "remove", Usage: "remove what was set"}},
	}
}

// groupFlag is the flag that limits a command to a group of the tube.
func groupFlag(help string) cli.Flag {
	return &cli.StringFlag{Name: "group", Usage: help + " (extension groups)"}
}

// groupWord returns the name of a group as it is in a command.
func groupWord(name string) (string, error) {
	if !protocol.ValidGroup(name) {
		return "", usage("the name of a group has 1 to %d bytes of text without control characters: %q", protocol.MaxGroup, name)
	}
	return protocol.Quote(name), nil
}

// groupStats is a group as list-groups shows it.
type groupStats struct {
	Name        string `json:"name"`
	Ready       uint64 `json:"ready"`
	Delayed     uint64 `json:"delayed"`
	Reserved    uint64 `json:"reserved"`
	Buried      uint64 `json:"buried"`
	Concurrency uint64 `json:"concurrency"` // 0: no limit
	Weight      uint64 `json:"weight"`
	Rate        string `json:"rate"`
	Pause       int64  `json:"pause-time-left" yaml:"pause-time-left"` // seconds
	Held        string `json:"held"`
}

// row returns the cells of a group in the table.
func (g *groupStats) row() []string {
	limit, pause := "-", "-"
	if g.Concurrency > 0 {
		limit = fmt.Sprint(g.Concurrency)
	}
	if g.Pause > 0 {
		pause = formatSeconds(g.Pause)
	}
	return []string{
		oneLine(g.Name), dash(g.Held, "no"), dash(g.Rate, "none"), pause, fmt.Sprint(g.Ready), fmt.Sprint(g.Delayed), fmt.Sprint(g.Reserved), fmt.Sprint(g.Buried), limit, fmt.Sprint(g.Weight),
	}
}

// dash returns a word, or - if it is the one that stands for nothing.
func dash(word, nothing string) string {
	if word == nothing {
		return "-"
	}
	return word
}

func groups(t *task) error {
	if err := t.require("groups", "groups"); err != nil {
		return err
	}
	most := uint64(t.Uint("count"))
	if t.Bool("all") {
		most = 1 << 62
	}
	b := &table{head: []string{"GROUP", "HELD", "RATE", "PAUSED", "READY", "DELAYED", "RESERVED", "BURIED", "LIMIT", "WEIGHT"}, left: 4}
	for cursor := ""; most > 0 && t.Context.Context.Err() == nil; {
		page, next, err := t.pageOfGroups(min(most, maxPageJobs), cursor)
		if err != nil {
			return err
		}
		for i := range page {
			if t.Bool("json") {
				if err := t.printJSON(&page[i]); err != nil {
					return err
				}
			}
			b.add(page[i].row()...)
		}
		if cursor = next; next == "" {
			break
		}
		most -= min(most, uint64(len(page)))
	}
	if t.Bool("json") {
		return nil
	}
	return b.print(t.out)
}

// pageOfGroups returns a page of the groups of the tube, and the cursor of the next one.
func (t *task) pageOfGroups(count uint64, cursor string) (page []groupStats, next string, err error) {
	text, err := t.page("listing the groups of "+t.tube(), strings.TrimSpace(fmt.Sprintf("list-groups %s %d %s", t.tube(), count, cursor)))
	if err != nil {
		return nil, "", err
	}
	var in struct {
		Next   string
		Groups []groupStats
	}
	if err := yaml.Unmarshal([]byte(text), &in); err != nil {
		return nil, "", fmt.Errorf("reading a page of list-groups: %w", err)
	}
	return in.Groups, in.Next, nil
}

func group(t *task) error {
	if err := t.require("groups", "group"); err != nil {
		return err
	}
	if t.NArg() == 0 {
		return usage("group needs the name of a group")
	}
	name, err := groupWord(t.Args().First())
	if err != nil {
		return err
	}
	tags := t.Args().Tail()
	for _, w := range tags {
		if err := checkWord("a tag", w); err != nil {
			return err
		}
	}
	switch {
	case t.Bool("remove") && len(tags) > 0:
		return usage("--remove takes no tags")
	case t.Bool("remove") || len(tags) > 0:
		return setGroup(t, name, strings.Join(tags, " "))
	}
	page, err := t.page("reading group "+name, "stats-group "+t.tube()+" "+name)
	if err != nil {
		return err
	}
	return t.printPage(page)
}

func setGroup(t *task, name, tags string) error {
	doing := "setting the limits of group " + name
	r, err := t.request(doing, strings.TrimSpace("set-group "+t.tube()+" "+name+" "+tags))
	if err == nil && string(r.Line) != "SET" {
		err = explained(replyError(doing, r), r, tags, field.InGroup)
	}
	if err != nil {
		return err
	}
	return t.printDone(map[string]any{"set": t.Args().First()}, "limits of group %s set", name)
}

// pauseGroup pauses a group of the tube.
func pauseGroup(t *task, seconds int64) error {
	name, err := groupWord(t.String("group"))
	if err == nil {
		err = t.require("groups", "pause --group")
	}
	if err == nil {
		_, err = t.expect("pausing group "+name, "PAUSED", fmt.Sprintf("pause-group %s %s %d", t.tube(), name, seconds))
	}
	if err != nil {
		return err
	}
	if seconds == 0 {
		return t.printDone(map[string]any{"paused": 0}, "group %s is not paused", name)
	}
	return t.printDone(map[string]any{"paused": seconds}, "group %s paused for %s", name, formatSeconds(seconds))
}

// flushGroup deletes the jobs of a group of the tube that are not reserved.
func flushGroup(t *task) error {
	name, err := groupWord(t.String("group"))
	if err == nil && t.String("state") != "" {
		err = usage("flush takes either --group or --state")
	}
	if err == nil {
		err = t.require("groups", "flush --group")
	}
	if err == nil {
		err = confirm(t, fmt.Sprintf("Delete the jobs of group %s of tube %s that are not reserved?", name, t.tube()))
	}
	if err != nil {
		return err
	}
	count, err := t.expect("flushing group "+name, "FLUSHED", "flush-group "+t.tube()+" "+name)
	if err != nil {
		return err
	}
	var n uint64
	fmt.Sscan(count, &n)
	return t.printDone(map[string]any{"flushed": n}, "%s deleted", nounFor(n, "job"))
}
