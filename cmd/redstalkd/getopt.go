package main

import (
	"strings"
)

// commandLine is the arguments in the one form that the flag parser is given.
type commandLine struct {
	args []string        // each --name=value
	said map[string]bool // long names that occur
	ask  string          // "help" or "version": nothing after that matters
}

// normalize reads arguments as getopt does: short flags in clusters, the value
// of the last one attached or the next argument, whatever that looks like;
// long ones as --name=value, or with the value next. "--" ends the flags.
// The first -h or -v ends it all, as in beanstalkd.
func normalize(args []string, options []*option) (*commandLine, error) {
	n := normalizer{rest: args, options: options, line: commandLine{said: make(map[string]bool)}}
	for len(n.rest) > 0 && n.line.ask == "" {
		arg := n.next()
		var err error
		switch {
		case arg == "--" && len(n.rest) == 0:
		case arg == "--":
			err = stray(n.next())
		case strings.HasPrefix(arg, "--"):
			err = n.long(arg[2:])
		case strings.HasPrefix(arg, "-") && arg != "-":
			err = n.cluster(arg[1:])
		default:
			err = stray(arg)
		}
		if err != nil {
			return nil, err
		}
	}
	return &n.line, nil
}

func stray(arg string) error { return usageError("unexpected argument %q", redact(arg)) }

// usageError is an error in the command line.
func usageError(format string, args ...any) error {
	return failure(exitUsage, format+" (redstalkd -h shows the flags)", args...)
}

type normalizer struct {
	rest    []string
	options []*option
	line    commandLine
}

func (n *normalizer) next() string {
	arg := n.rest[0]
	n.rest = n.rest[1:]
	return arg
}

func (n *normalizer) long(arg string) error {
	name, value, attached := strings.Cut(arg, "=")
	for _, o := range n.options {
		if o.name == name {
			return n.add(o, "--"+name, value, attached)
		}
	}
	return usageError("unknown flag --%s", redact(name))
}

func (n *normalizer) cluster(flags string) error {
	for len(flags) > 0 && n.line.ask == "" {
		o := n.find(flags[0])
		if o == nil {
			return usageError("unknown flag -%s", firstRune(flags))
		}
		name := "-" + flags[:1]
		flags = flags[1:]
		if !o.takesValue() {
			if err := n.add(o, name, "", false); err != nil {
				return err
			}
			continue
		}
		return n.add(o, name, flags, flags != "")
	}
	return nil
}

func (n *normalizer) find(short byte) *option {
	for _, o := range n.options {
		if o.short == short {
			return o
		}
	}
	return nil
}

func firstRune(s string) string {
	for _, r := range s {
		return string(r)
	}
	return ""
}

// add notes that option o was given, written as name.
func (n *normalizer) add(o *option, name, value string, attached bool) error {
	switch {
	case o.takesValue() && !attached && len(n.rest) == 0:
		return usageError("flag %s needs a value: %s", name, o.value)
	case o.takesValue() && !attached:
		value = n.next()
	case !attached:
		value = "true"
	}
	if o.name == "help" || o.name == "version" {
		n.line.ask = o.name
		return nil
	}
	n.line.said[o.name] = true
	n.line.args = append(n.line.args, "--"+o.name+"="+value)
	return nil
}
