package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// reorderArgs sorts the words of a command line into the order that the library needs: the common
// flags, the command, its flags, its arguments. So flags can stand anywhere.
func reorderArgs(app *cli.App, args []string) []string {
	var common, own, rest []string
	var command *cli.Command
	for i := 1; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			rest = append(rest, args[i+1:]...)
			i = len(args)
		case !strings.HasPrefix(arg, "-") || arg == "-":
			if command == nil && len(rest) == 0 {
				if command = app.Command(arg); command != nil {
					continue
				}
			}
			rest = append(rest, arg)
		default:
			to, f := &common, findFlag(app.Flags, arg)
			if command != nil && f == nil {
				to, f = &own, findFlag(command.Flags, arg)
			}
			*to = append(*to, arg)
			if takesValue(f) && !strings.Contains(arg, "=") && i+1 < len(args) {
				i++
				*to = append(*to, args[i])
			}
		}
	}
	out := append([]string{args[0]}, common...)
	if command != nil {
		out = append(append(out, command.Name), own...)
	}
	if len(rest) > 0 {
		out = append(append(out, "--"), rest...)
	}
	return out
}

// findFlag returns the flag of an argument such as --name=value, or nil if there is none.
func findFlag(flags []cli.Flag, arg string) cli.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	for _, f := range flags {
		for _, n := range f.Names() {
			if n == name {
				return f
			}
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}
