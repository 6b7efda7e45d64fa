package main

import "github.com/urfave/cli/v2"

// commands is the table of commands, in the order of the help.
func commands() []*cli.Command {
	return []*cli.Command{
		in("Jobs", putCommand()),
		in("Jobs", reserveCommand()),
		in("Jobs", peekCommand()),
		in("Jobs", listCommand()),
		in("Jobs", findCommand()),
		in("Jobs", deleteCommand()),
		in("Jobs", kickCommand()),
		in("Jobs", buryCommand()),
		in("Jobs", releaseCommand()),
		in("Jobs", touchCommand()),
		in("Jobs", rescheduleCommand()),
		in("Jobs", priorityCommand()),
		in("Tubes", tubesCommand()),
		in("Tubes", topCommand()),
		in("Tubes", pauseCommand()),
		in("Tubes", flushCommand()),
		in("Tubes", moveCommand()),
		in("Tubes", policyCommand()),
		in("Servers", statsCommand()),
		in("Servers", drainCommand()),
		in("Servers", exportCommand()),
		in("Servers", importCommand()),
		in("Servers", moveFromCommand()),
		in("This program", completionCommand()),
		in("This program", manCommand()),
		completeCommand(),
		referenceCommand(),
	}
}

// in puts a command into a part of the help.
func in(part string, c *cli.Command) *cli.Command {
	c.Category = part
	return c
}
