package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

func replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", ArgsUsage: "[ID...|-]", Action: withConn(anyNumber, replay),
		Usage:       "send dead letters back where they came from, and kick buried jobs; - reads ids from standard input (extension replay)",
		Description: "With --tube or --all, all jobs that parked lists. Failures and deliveries count from 0 again.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tube", Aliases: []string{"t"}, Usage: "replay the jobs of this `TUBE`"},
			&cli.BoolFlag{Name: "all", Usage: "replay the jobs of all tubes; asks first"},
			&cli.StringFlag{Name: "rate", Usage: "replay at most `N/s` jobs a second, such as 50/s"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only print which jobs would be replayed"},
			keepCheckpointFlag(), yesFlag(),
		},
	}
}

func replay(t *task) error {
	rate, err := parseRate(t.String("rate"))
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
	ids, err := t.idsToReplay()
	if err != nil {
		return err
	}
	if t.Bool("dry-run") {
		for _, id := range ids {
			if _, err := fmt.Fprintln(t.out, id); err != nil {
				return outputError(err)
			}
		}
		t.infof("%s would be replayed", nounFor(len(ids), "job"))
		return nil
	}
	if t.Bool("all") {
		if err := confirm(t, fmt.Sprintf("Replay %s of all tubes?", nounFor(len(ids), "job"))); err != nil {
			return err
		}
	}
	return t.replayAtRate(ids, rate, keep)
}

// idsToReplay returns the ids that the command line names.
func (t *task) idsToReplay() (ids []uint64, err error) {
	ways := 0
	for _, chosen := range []bool{t.NArg() > 0, t.tube() != "", t.Bool("all")} {
		if chosen {
			ways++
		}
	}
	if ways != 1 {
		return nil, usage("replay takes either ids, --tube or --all")
	}
	if t.NArg() > 0 {
		return idsFrom(t)
	}
	var names []string
	if t.tube() != "" {
		names = []string{t.tube()}
	}
	err = t.allParked(names, 1<<62, func(jobs []*job) error {
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
		return nil
	})
	return ids, err
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

// replayAtRate replays jobs, at most rate of them a second, in steps of a tenth of a second or longer.
// keep is the end of each command. It prints how many it has replayed.
func (t *task) replayAtRate(ids []uint64, rate int, keep string) error {
	step := max(len(ids), 1)
	if rate > 0 {
		step = max(rate/10, 1)
	}
	count, missing := 0, []uint64{}
	for from := 0; from < len(ids); from += step {
		some := ids[from:min(from+step, len(ids))]
		began := time.Now()
		err := t.replayStep(some, keep, &count, &missing)
		if err != nil {
			return fmt.Errorf("%w (%d were replayed)", err, count)
		}
		if rate > 0 && from+step < len(ids) {
			select {
			case <-time.After(time.Until(began.Add(time.Duration(len(some)) * time.Second / time.Duration(rate)))):
			case <-t.Context.Context.Done():
				return interrupted(nounFor(count, "job") + " replayed")
			}
		}
	}
	if err := t.printDone(map[string]any{"replayed": count, "missing": missing}, "%s replayed", nounFor(count, "job")); err != nil {
		return err
	}
	if len(missing) > 0 {
		return notFound("not found, or neither buried nor a dead letter: %s", formatIDs(missing))
	}
	return nil
}

func (t *task) replayStep(ids []uint64, keep string, count *int, missing *[]uint64) error {
	return t.pipeline("replaying jobs", len(ids), func(out []byte, i int) []byte { return fmt.Appendf(out, "replay-job %d%s\r\n", ids[i], keep) }, func(i int, r *client.Reply) error {
		switch {
		case string(r.Line) == "REPLAYED":
			*count++
		case r.Word == client.NotFound:
			*missing = append(*missing, ids[i])
		default:
			return replyError(fmt.Sprintf("job %d", ids[i]), r)
		}
		return nil
	})
}
