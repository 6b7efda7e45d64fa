package main

import (
	"slices"

	"github.com/urfave/cli/v2"
)

// commands is the table of commands, in the order of the help.
func commands() []*cli.Command {
	return slices.Concat(
		inCategory("Jobs", putCommand(), reserveCommand(), peekCommand(), listCommand(), searchCommand(), findCommand(), endedCommand(), waitCommand()),
		inCategory("Jobs", jobCommands()...),
		inCategory("Tubes", tubesCommand(), topCommand(), historyCommand(), parkedCommand(), pauseCommand(), flushCommand(), moveCommand(), policyCommand(), groupsCommand(), groupCommand(), schedulesCommand(), batchesCommand(), batchCommand()),
		inCategory("Servers", statusCommand(), statsCommand(), clientsCommand(), closeClientCommand(), drainCommand(), exportCommand(), importCommand(), moveFromCommand(), outboxCommand()),
		inCategory("This program", helpCommand(), versionCommand(), completionCommand(), manCommand()),
		[]*cli.Command{completeCommand(), referenceCommand()},
	)
}

// inCategory puts commands into a section of the help.
func inCategory(category string, commands ...*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.Category = category
	}
	return commands
}
