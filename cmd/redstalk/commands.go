package main

import "github.com/urfave/cli/v2"

// commands is the table of commands, in the order of the help.
func commands() []*cli.Command {
	return []*cli.Command{
		inCategory("Jobs", putCommand()),
		inCategory("Jobs", reserveCommand()),
		inCategory("Jobs", peekCommand()),
		inCategory("Jobs", listCommand()),
		inCategory("Jobs", findCommand()),
		inCategory("Jobs", deleteCommand()),
		inCategory("Jobs", kickCommand()),
		inCategory("Jobs", buryCommand()),
		inCategory("Jobs", releaseCommand()),
		inCategory("Jobs", touchCommand()),
		inCategory("Jobs", rescheduleCommand()),
		inCategory("Jobs", priorityCommand()),
		inCategory("Tubes", tubesCommand()),
		inCategory("Tubes", topCommand()),
		inCategory("Tubes", pauseCommand()),
		inCategory("Tubes", flushCommand()),
		inCategory("Tubes", moveCommand()),
		inCategory("Tubes", policyCommand()),
		inCategory("Servers", statsCommand()),
		inCategory("Servers", drainCommand()),
		inCategory("Servers", exportCommand()),
		inCategory("Servers", importCommand()),
		inCategory("Servers", moveFromCommand()),
		inCategory("This program", completionCommand()),
		inCategory("This program", manCommand()),
		completeCommand(),
		referenceCommand(),
	}
}

// inCategory puts a command into a section of the help.
func inCategory(category string, c *cli.Command) *cli.Command {
	c.Category = category
	return c
}
