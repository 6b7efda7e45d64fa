package main

import (
	"strings"

	"redstalk/storage/redact"
)

// commandLine is the parsed command line.
type commandLine struct {
	flags []givenOption   // in their order
	given map[string]bool // by long name
	ask   string          // "help", "version" or "fields": then nothing else counts
	check bool            // --check was given
}

// givenOption is an option of a command line with its value; a switch has the value "true".
type givenOption struct {
	*option
	text string
}

// overrides reports whether the command line gives an option or one of its rivals.
func (l *commandLine) overrides(o *option) bool {
	for _, name := range o.rivals {
		if l.given[name] {
			return true
		}
	}
	return l.given[o.name]
}

// parseArgs reads arguments as getopt does. Short flags can be in clusters; the value
// of the last one is attached, or is the next argument, whatever that looks like.
// Long ones are --name=value, or have the value next. "--" ends the flags.
// The first -h or -v ends everything, as in beanstalkd.
func parseArgs(args []string, options []*option) (*commandLine, error) {
	p := argParser{rest: args, options: options, line: commandLine{given: make(map[string]bool)}}
	for len(p.rest) > 0 && p.line.ask == "" {
		arg := p.next()
		var err error
		switch {
		case arg == "--" && len(p.rest) == 0:
		case arg == "--":
			err = unexpectedArgument(p.next())
		case strings.HasPrefix(arg, "--"):
			err = p.long(arg[2:])
		case strings.HasPrefix(arg, "-") && arg != "-":
			err = p.cluster(arg[1:])
		default:
			err = unexpectedArgument(arg)
		}
		if err != nil {
			return nil, err
		}
	}
	return &p.line, nil
}

func unexpectedArgument(arg string) error {
	return usageError("unexpected argument %q", redact.URL(arg))
}

// usageError is an error in the command line.
func usageError(format string, args ...any) error {
	return failure(exitUsage, format+" (redstalkd -h shows the flags)", args...)
}

// argParser is one run of parseArgs.
type argParser struct {
	rest    []string
	options []*option
	line    commandLine
}

func (p *argParser) next() string {
	arg := p.rest[0]
	p.rest = p.rest[1:]
	return arg
}

func (p *argParser) long(arg string) error {
	name, value, attached := strings.Cut(arg, "=")
	for _, o := range p.options {
		if o.name == name {
			return p.add(o, "--"+name, value, attached)
		}
	}
	return usageError("unknown flag --%s", redact.URL(name))
}

func (p *argParser) cluster(flags string) error {
	for len(flags) > 0 && p.line.ask == "" {
		o := p.find(flags[0])
		if o == nil {
			return usageError("unknown flag -%s", firstRune(flags))
		}
		name := "-" + flags[:1]
		flags = flags[1:]
		if !o.takesValue() {
			if err := p.add(o, name, "", false); err != nil {
				return err
			}
			continue
		}
		return p.add(o, name, flags, flags != "")
	}
	return nil
}

func (p *argParser) find(short byte) *option {
	for _, o := range p.options {
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

// add records that option o was given, written as name.
func (p *argParser) add(o *option, name, value string, attached bool) error {
	switch {
	case o.takesValue() && !attached && len(p.rest) == 0:
		return usageError("flag %s needs a value: %s", name, o.value)
	case o.takesValue() && !attached:
		value = p.next()
	case !attached:
		value = "true"
	}
	if o.name == "help" || o.name == "version" || o.name == "fields" {
		p.line.ask = o.name
		return nil
	}
	if o.name == "check" {
		p.line.check = true
		return nil
	}
	p.line.given[o.name] = true
	p.line.flags = append(p.line.flags, givenOption{o, value})
	return nil
}
