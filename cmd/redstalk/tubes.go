package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

func pauseCommand() *cli.Command {
	return &cli.Command{
		Name: "pause", ArgsUsage: "DURATION", Action: withConn(arguments{1, 1}, pause),
		Usage: "deliver no jobs of a tube for that long, in whole seconds; 0 ends a pause",
		Flags: []cli.Flag{tubeFlag(), groupFlag("pause only this `GROUP` of the tube")},
	}
}

func pause(t *task) error {
	d, err := parseDuration(t.Args().First())
	if err != nil {
		return failure{exitUsage, err}
	}
	s := wholeSeconds(d)
	if t.IsSet("group") {
		return pauseGroup(t, s)
	}
	if _, err := t.expect("pausing tube "+t.tube(), "PAUSED", fmt.Sprintf("pause-tube %s %d", t.tube(), s)); codeOf(err) == exitNothing {
		return noTube(t.tube())
	} else if err != nil {
		return err
	}
	if s == 0 {
		return t.printDone(map[string]any{"paused": 0}, "tube %s is not paused", t.tube())
	}
	return t.printDone(map[string]any{"paused": s}, "tube %s paused for %s", t.tube(), formatSeconds(s))
}

// noTube is the error if there is no such tube.
func noTube(name string) error {
	return notFound("there is no tube %s: it has no jobs, and no client uses or watches it", name)
}

// checkTube returns an error if there is no such tube, or if the server cannot be asked. A user without the right to read
// is not told.
func (t *task) checkTube(name string) error {
	r, err := t.request("reading tube "+name, "stats-tube "+name)
	if err == nil && r.Word == client.NotFound {
		err = noTube(name)
	}
	return err
}

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask for confirmation"}
}

func flushCommand() *cli.Command {
	return &cli.Command{
		Name: "flush", Action: withConn(noArguments, flush),
		Usage: "delete all jobs of a tube that are not reserved, or all in one state; asks first",
		Flags: []cli.Flag{tubeFlag(), stateFlag("", "ready, delayed, buried, or reserved (extension flush)"), groupFlag("delete only the jobs of this `GROUP`"), yesFlag()},
	}
}

func flush(t *task) error {
	if t.IsSet("group") {
		return flushGroup(t)
	}
	from := []string{"ready", "delayed", "buried"}
	if state := t.String("state"); state != "" {
		if err := checkState(state, states...); err != nil {
			return err
		}
		from = []string{state}
	}
	n, err := countJobs(t, from)
	if err != nil {
		return err
	}
	if err := confirm(t, fmt.Sprintf("Delete %s (%s) of tube %s?", nounFor(n, "job"), strings.Join(from, ", "), t.tube())); err != nil {
		return err
	}
	atOnce, err := t.supports("flush")
	if err != nil {
		return err
	}
	if atOnce {
		command := strings.TrimSpace("flush-tube " + t.tube() + " " + t.String("state"))
		n, err = t.longRequest("flushing tube "+t.tube(), "FLUSHED", command, from, n)
	} else if from[0] == "reserved" {
		err = t.require("flush", "flush --state reserved")
	} else {
		n, err = flushOneByOne(t, from)
	}
	if err != nil {
		return err
	}
	return t.printDone(map[string]any{"flushed": n}, "%s deleted", nounFor(n, "job"))
}

// countJobs returns the number of jobs of the tube in these states.
func countJobs(t *task, in []string) (n uint64, err error) {
	page, err := t.page("reading tube "+t.tube(), "stats-tube "+t.tube())
	if codeOf(err) == exitNothing && err != nil {
		err = noTube(t.tube())
	}
	return jobsIn(page, in), err
}

// jobsIn returns the number of jobs in some states, from the page of a tube.
func jobsIn(page client.Page, states []string) (n uint64) {
	for _, state := range states {
		n += numberOf(page, "current-jobs-"+state)
	}
	return n
}

// numberOf returns a number of a page, or 0 if it is missing.
func numberOf(page client.Page, key string) uint64 {
	value, _ := page.Value(key)
	n, _ := strconv.ParseUint(value, 10, 64)
	return n
}

// flushOneByOne deletes one job after the other, for a server without the extension. It ends when there
// are no more, so it deletes jobs that arrive meanwhile, too.
func flushOneByOne(t *task, from []string) (count uint64, err error) {
	if err := t.use(t.tube()); err != nil {
		return 0, err
	}
	for _, state := range from {
		for t.Context.Context.Err() == nil {
			r, err := t.request("looking for a job", "peek-"+state)
			if err != nil {
				return count, err
			}
			if r.Word != client.Found {
				break
			}
			deleted, err := t.request("deleting a job", fmt.Sprintf("delete %d", r.ID))
			if err != nil {
				return count, err
			}
			if deleted.Word == client.Deleted {
				count++
			}
		}
	}
	if t.Context.Context.Err() != nil {
		return count, interrupted(nounFor(count, "job") + " deleted")
	}
	return count, nil
}

func moveCommand() *cli.Command {
	return &cli.Command{
		Name: "move", ArgsUsage: "[COUNT|all]", Action: withConn(arguments{0, 1}, move),
		Usage: "move jobs to another tube, where they get new ids (extension move)",
		Flags: []cli.Flag{tubeFlag(), &cli.StringFlag{Name: "to", Usage: "destination `TUBE`"}, stateFlag("ready", "ready, delayed or buried"), yesFlag()},
	}
}

func move(t *task) error {
	to, state, n := t.String("to"), t.String("state"), uint64(1<<32-1)
	if err := checkState(state, "ready", "delayed", "buried"); err != nil {
		return err
	}
	if to == "" {
		return usage("move needs --to")
	}
	if t.NArg() > 0 {
		var err error
		if n, err = countOf(t.Args().First()); err != nil {
			return err
		}
	}
	if err := t.require("move", "move"); err != nil {
		return err
	}
	count, err := countJobs(t, []string{state})
	if err != nil {
		return err
	}
	if err := confirm(t, fmt.Sprintf("Move %s (%s) from %s to %s?", nounFor(min(n, count), "job"), state, t.tube(), to)); err != nil {
		return err
	}
	n, err = t.longRequest("moving jobs of "+t.tube(), "MOVED", fmt.Sprintf("move-jobs %s %s %s %d", t.tube(), state, to, n), []string{state}, min(n, count))
	if err != nil {
		return err
	}
	return t.printDone(map[string]any{"moved": n}, "%s moved", nounFor(n, "job"))
}

func printNames(w io.Writer, names []string) error {
	for _, name := range names {
		if _, err := fmt.Fprintln(w, name); err != nil {
			return outputError(err)
		}
	}
	return nil
}

func drainCommand() *cli.Command {
	return &cli.Command{
		Name: "drain", Action: withConn(noArguments, drain),
		Usage:       "make the server refuse every put, or accept puts again (extension drain)",
		Description: "With --wait it is what an orchestrator runs before it stops a server: producers put elsewhere, and workers finish their jobs. With --after a service first stops to give the server new connections. It waits also if the server has refused.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "off", Usage: "accept puts again"},
			durationFlag("after", 0, "`DURATION` to wait before that"),
			durationFlag("wait", 0, "`DURATION` to wait before the command ends"),
		},
	}
}

// drain waits as long as --after says, drains the server, and then waits as long as --wait says, even if that was refused: an
// orchestrator stops the server after that.
func drain(t *task) error {
	if err := t.pause(time.After(t.duration("after"))); err != nil {
		return interrupted("nothing was done")
	}
	err := setDraining(t)
	if t.pause(time.After(t.duration("wait"))) != nil {
		return interrupted("the server goes on draining")
	}
	return err
}

func setDraining(t *task) error {
	if err := t.require("drain", "drain"); err != nil {
		return err
	}
	command, want := "drain", "DRAINING"
	if t.Bool("off") {
		command, want = "undrain", "NOT_DRAINING"
	}
	if _, err := t.expect("draining", want, command); err != nil {
		return err
	}
	return t.printDone(map[string]any{"draining": !t.Bool("off")}, "%s", strings.ToLower(strings.ReplaceAll(want, "_", " ")))
}
