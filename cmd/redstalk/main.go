package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"redstalk/protocol"
)

// Version is that of this program. The Makefile sets it, with -ldflags "-X main.Version=1.2.3".
var Version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that the second signal ends the process at once
	os.Exit(run(ctx, stdio{os.Stdin, os.Stdout, os.Stderr}, os.Args))
}

// stdio is the standard streams of a process.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// run runs the program and returns its exit code. When ctx is done, commands stop.
func run(ctx context.Context, io stdio, args []string) int {
	io.out, io.err = safeOutput(io.out), safeOutput(io.err)
	app := newApp(io)
	return report(io, app.RunContext(ctx, reorderArgs(app, args)))
}

func newApp(io stdio) *cli.App {
	app := &cli.App{
		Name:                      "redstalk",
		Usage:                     "put, run, show, move and copy the jobs of a beanstalk server",
		Version:                   Version,
		Flags:                     commonFlags(),
		Commands:                  commands(),
		Reader:                    io.in,
		Writer:                    io.out,
		ErrWriter:                 io.err,
		HideHelp:                  true, // the library's flags for these are shared by all apps
		HideVersion:               true,
		Before:                    showHelp,
		DisableSliceFlagSeparator: true,
		OnUsageError:              usageError,
		ExitErrHandler:            func(*cli.Context, error) {},
		Action:                    unknownCommand,
		Metadata:                  map[string]any{"stdio": io},
	}
	for _, c := range app.Commands {
		c.OnUsageError, c.HideHelp, c.CustomHelpTemplate = usageError, true, helpTemplate(c.Name)
	}
	return app
}

// showHelp handles --help and --version, instead of the command.
func showHelp(c *cli.Context) error {
	switch {
	case c.Bool("version"):
		cli.ShowVersion(c)
	case !c.Bool("help"):
		return nil
	case c.App.Command(c.Args().First()) != nil:
		cli.ShowCommandHelp(c, c.Args().First())
	default:
		cli.ShowAppHelp(c)
	}
	return failure{0, errors.New("")}
}

// unknownCommand is the action if the command line names no known command.
func unknownCommand(c *cli.Context) error {
	if c.NArg() == 0 {
		return cli.ShowAppHelp(c)
	}
	word := c.Args().First()
	var names []string
	for _, command := range c.App.VisibleCommands() {
		names = append(names, command.Name)
	}
	if close := protocol.Closest(word, names); close != "" {
		return usage("there is no command %q; did you mean %s?", word, close)
	}
	return usage("there is no command %q; redstalk --help lists them", word)
}

// usageError adds to an error about an unknown flag which one was perhaps meant.
func usageError(c *cli.Context, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	name = strings.TrimLeft(name, "-")
	if !unknown || name == "" {
		return failure{exitUsage, err}
	}
	flags := commonFlags()
	if c.Command != nil {
		flags = append(flags, c.Command.Flags...)
	}
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()...)
	}
	if close := protocol.Closest(name, names); close != "" {
		return usage("there is no flag --%s; did you mean --%s?", name, close)
	}
	return usage("there is no flag --%s", name)
}
