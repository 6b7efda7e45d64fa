package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

func peekCommand() *cli.Command {
	return &cli.Command{
		Name: "peek", ArgsUsage: "[ID]", Action: withConn(arguments{0, 1}, peek),
		Usage: "print the body of a job, or of the next job of a tube",
		Flags: []cli.Flag{tubeFlag(), stateFlag("ready", "ready, delayed or buried: the state of the next job")},
	}
}

func peek(t *task) error {
	command, doing := "peek "+t.Args().First(), "reading job "+t.Args().First()
	if t.NArg() == 0 {
		state := t.String("state")
		if err := checkState(state, "ready", "delayed", "buried"); err != nil {
			return err
		}
		if err := t.use(t.tube()); err != nil {
			return err
		}
		command, doing = "peek-"+state, "reading the next "+state+" job of "+t.tube()
	} else if _, err := jobID(t.Args().First()); err != nil {
		return err
	}
	return printFound(t, doing, command)
}

// printFound prints the job that a command returns.
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
	page, err := t.page(fmt.Sprintf("reading job %d", j.ID), fmt.Sprintf("stats-job %d", j.ID))
	if err != nil {
		return err
	}
	j.readPage(page)
	return t.printJSON(&j)
}

func findCommand() *cli.Command {
	return &cli.Command{
		Name: "find", ArgsUsage: "KEY", Action: withConn(arguments{1, 1}, find),
		Usage: "print the body of the job with a key in a tube (extension put-tags)",
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
