package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
)

func historyCommand() *cli.Command {
	return &cli.Command{
		Name: "history", ArgsUsage: "[TUBE]", Action: withConn(arguments{0, 1}, history),
		Usage:       "show what happened in a tube, or in all tubes, by hour or day (extension history)",
		Description: "Hours and days are those of UTC; those in which nothing happened are left out. WAIT and RUN are means.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "days", Usage: "show days, kept for 90, instead of hours, kept for 7 days"},
			&cli.UintFlag{Name: "count", Aliases: []string{"n"}, Value: 24, Usage: "show the last `N` hours or days, at most 168 hours or 90 days"},
		},
	}
}

// tally is a line of history.
type tally struct {
	Begin   int64  `json:"begin"` // seconds since 1970
	Put     uint64 `json:"put"`
	Started uint64 `json:"started"`
	Done    uint64 `json:"done"`
	Failed  uint64 `json:"failed"`
	Parked  uint64 `json:"parked"`
	Expired uint64 `json:"expired"`
	First   uint64 `json:"first"`
	Wait    uint64 `json:"wait-ms" yaml:"wait-ms"`
	Run     uint64 `json:"run-ms" yaml:"run-ms"`
}

func history(t *task) error {
	if err := t.require("history", "history"); err != nil {
		return err
	}
	period, of, command := "hours", "all tubes", "history"
	if t.Bool("days") {
		period = "days"
	}
	if t.NArg() > 0 {
		if of = t.Args().First(); checkWord("a tube", of) != nil {
			return checkWord("a tube", of)
		}
		command = "history-tube " + of
	}
	count := t.Uint("count")
	if count < 1 || count > 1000 {
		return usage("--count must be from 1 to 1000")
	}
	page, err := t.page("reading the history of "+of, fmt.Sprintf("%s %s %d", command, period, count))
	if err != nil {
		return err
	}
	var in struct{ History []tally }
	if err := yaml.Unmarshal([]byte(page), &in); err != nil {
		return fmt.Errorf("reading the reply of history: %w", err)
	}
	if t.Bool("json") {
		for i := range in.History {
			if err := t.printJSON(&in.History[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return historyTable(in.History, t.Bool("days")).print(t.out)
}

// historyTable returns the table of a history, in UTC.
func historyTable(all []tally, days bool) *table {
	b := &table{head: []string{"HOUR", "PUT", "STARTED", "DONE", "FAILED", "PARKED", "EXPIRED", "WAIT", "RUN"}, left: 1}
	format := "2006-01-02 15:04"
	if days {
		b.head[0], format = "DAY", time.DateOnly
	}
	for i := range all {
		n := &all[i]
		b.add(time.Unix(n.Begin, 0).UTC().Format(format), grouped(n.Put), grouped(n.Started), grouped(n.Done), grouped(n.Failed),
			grouped(n.Parked), grouped(n.Expired), mean(n.Wait, n.First), mean(n.Run, n.Done))
	}
	return b
}

// mean returns the mean of n durations with a sum in ms, - if there are none.
func mean(sum, n uint64) string {
	if n == 0 {
		return "-"
	}
	d := time.Duration(sum/n) * time.Millisecond
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	}
	return d.String()
}
