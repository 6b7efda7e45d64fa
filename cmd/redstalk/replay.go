package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

func replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", ArgsUsage: "[ID...|-|TUBE...]", Action: withConn(anyNumber, replay),
		Usage:       "send dead letters back where they came from, and kick buried jobs; - reads ids from standard input (extension replay)",
		Description: "With a TUBE, --tube or --all, all jobs that parked lists; with flags that filter, such as --reason, those that match. Failures and deliveries count from 0 again.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "tube", Aliases: []string{"t"}, Usage: "replay the jobs of this `TUBE`"},
			&cli.BoolFlag{Name: "all", Usage: "replay the jobs of all tubes; asks first"},
			&cli.StringFlag{Name: "rate", Usage: "replay at most `N/s` jobs a second, such as 50/s"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only print how many jobs would be replayed, by reason"},
			keepCheckpointFlag(), yesFlag(),
		}, filterFlags()...),
	}
}

func replay(t *task) error {
	rate, err := parseRate(t.String("rate"))
	if err != nil {
		return err
	}
	f, err := t.jobFilter("")
	if err != nil {
		return err
	}
	names, ids, err := t.argumentsOfReplay(f)
	if err != nil {
		return err
	}
	if err := t.require("replay", "replay"); err != nil {
		return err
	}
	keep, err := t.keepWord()
	if err != nil {
		return err
	}
	if ids != nil {
		if t.Bool("dry-run") {
			return t.printIDs(ids)
		}
		return t.replayAtRate(ids, rate, keep)
	}
	missing, err := t.firstMissing(names)
	if err = cmp.Or(err, missing); err != nil {
		return err
	}
	ids, counts, err := t.parkedIDs(names, f)
	if err != nil {
		return err
	}
	if t.Bool("dry-run") {
		t.infof("%s would be replayed", nounFor(len(ids), "job"))
		return t.result(counts, counts.table().print)
	}
	if len(names) == 0 {
		if err := confirm(t, fmt.Sprintf("Replay %s of all tubes%s?", nounFor(len(ids), "job"), counts.summary())); err != nil {
			return err
		}
	}
	return t.replayAtRate(ids, rate, keep)
}

// argumentsOfReplay returns what the command line names: ids, or tubes; neither means all tubes.
func (t *task) argumentsOfReplay(f *jobFilter) (names []string, ids []uint64, err error) {
	args := t.Args().Slice()
	if len(args) > 0 && (args[0] == "-" || strings.Trim(args[0], "0123456789") == "") {
		if t.tube() != "" || t.Bool("all") || f != nil {
			return nil, nil, usage("replay takes either ids, or tubes and a filter: a tube with a name of digits is given with --tube")
		}
		ids, err = idsFrom(t)
		return nil, ids, err
	}
	if t.tube() != "" {
		args = append(args, t.tube())
	}
	switch {
	case len(args) > 0 && t.Bool("all"):
		return nil, nil, usage("replay takes either tubes or --all")
	case len(args) == 0 && !t.Bool("all") && f == nil:
		return nil, nil, usage("replay takes ids, tubes, a filter such as --reason, or --all")
	}
	return args, nil, checkTubes(args)
}

// parkedIDs returns the ids of the jobs that have failed for good and match, and counts them by reason.
func (t *task) parkedIDs(names []string, f *jobFilter) ([]uint64, reasonCounts, error) {
	ids, counts := []uint64{}, make(reasonCounts)
	bar := startNotes(t, "searching", 0, func() string { return nounFor(len(ids), "job") + " found" })
	err := t.allParked(names, f, 1<<62, func(jobs []foundJob) error {
		counts.add(jobs)
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
		bar.set(uint64(len(ids)))
		return nil
	})
	bar.end()
	return ids, counts, err
}

// printIDs prints ids, one on each line.
func (t *task) printIDs(ids []uint64) error {
	for _, id := range ids {
		if _, err := fmt.Fprintln(t.out, id); err != nil {
			return outputError(err)
		}
	}
	t.infof("%s would be replayed", nounFor(len(ids), "job"))
	return nil
}

// parseRate reads a number of jobs per second, with or without "/s"; "" is 0, no limit.
func parseRate(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(text, "/s"))
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, usage("%q is not a rate such as 50/s", text)
	}
	return n, nil
}

// replayAtRate replays jobs in steps, with a rate at most that many a second. It can be stopped after each step.
// keep is the end of each command. It prints how many it has replayed.
func (t *task) replayAtRate(ids []uint64, rate int, keep string) error {
	step := window
	if rate > 0 {
		step = min(max(rate/10, 1), window)
	}
	bar := startProgress(t, "replaying", uint64(len(ids)))
	defer bar.end()
	count, missing := 0, []uint64{}
	for from := 0; from < len(ids); from += step {
		some := ids[from:min(from+step, len(ids))]
		began := time.Now()
		err := t.replayStep(some, keep, &count, &missing)
		if err != nil {
			return fmt.Errorf("%w (%d were replayed)", err, count)
		}
		bar.add(uint64(len(some)))
		if from+step >= len(ids) {
			break
		}
		var until <-chan time.Time
		if rate > 0 {
			until = time.After(time.Until(began.Add(time.Duration(len(some)) * time.Second / time.Duration(rate))))
		}
		if err := t.pause(until); err != nil {
			return interrupted(nounFor(count, "job") + " replayed")
		}
	}
	bar.end()
	if err := t.printDone(map[string]any{"replayed": count, "missing": missing}, "%s replayed", nounFor(count, "job")); err != nil {
		return err
	}
	if len(missing) > 0 {
		return notFound("not found, or neither buried nor a dead letter: %s", formatIDs(missing))
	}
	return nil
}

// pause waits until a time, nil for none. It returns an error if the command was stopped.
func (t *task) pause(until <-chan time.Time) error {
	ctx := t.Context.Context
	if until == nil {
		return ctx.Err()
	}
	select {
	case <-until:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (t *task) replayStep(ids []uint64, keep string, count *int, missing *[]uint64) error {
	return t.pipeline("replaying jobs", len(ids), func(out []byte, i int) []byte { return fmt.Appendf(out, "replay-job %d%s\r\n", ids[i], keep) }, countReplies(ids, "REPLAYED", count, missing))
}
