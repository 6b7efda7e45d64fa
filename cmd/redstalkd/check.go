package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"redstalk/storage/redact"
)

// origin is the text of a value, and where it came from: a flag, a variable or a file.
type origin struct{ text, source string }

// record notes the origin of a value. It replaces those of the options that this one overrides.
func (s *settings) record(o *option, text, source string) {
	if before, given := s.origins[o.name]; given && o.repeated {
		text = before.text + "," + text
	}
	if !o.takesValue() && (text == "false" || text == "0") {
		text = "off"
	} else {
		for _, rival := range o.rivals {
			delete(s.origins, rival)
		}
	}
	s.origins[o.name] = origin{text, source}
}

// originOf returns the value of an option and its source, without secrets.
func (s *settings) originOf(o *option) origin {
	from, given := s.origins[o.name]
	switch binlog, isDir := s.origins["binlog"]; {
	case o.name == "store" && isDir:
		from = origin{s.engine.url, binlog.source}
	case !given && o.initial == "":
		from = origin{o.unset(), "default"}
	case !given:
		from = origin{o.initial, "default"}
	case o.name == "verbose":
		from.text = fmt.Sprint(s.verbosity)
	case !o.takesValue() && from.text != "off":
		from.text = "on"
	}
	return origin{redact.URL(from.text), from.source}
}

// printConfiguration writes a line for each option: its name, its value, and where that came from.
func (s *settings) printConfiguration(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, o := range s.options() {
		if !o.hidden && o.set != nil {
			from := s.originOf(o)
			fmt.Fprintf(table, "%s\t%s\t%s\n", o.name, from.text, from.source)
		}
	}
	return table.Flush()
}

// checkConfiguration is what --check does instead of serving: it prints the configuration and reads the files
// that it names, as a start would. It opens neither sockets nor the store.
func (p *program) checkConfiguration(stdout io.Writer) error {
	if err := p.printConfiguration(stdout); err != nil {
		return failure(exitFailure, "printing the configuration: %w", err)
	}
	if _, err := p.pushConfig(); err != nil {
		return err
	}
	withoutSockets := *p.settings
	withoutSockets.guards.tls.addr = ""
	g, err := (&program{settings: &withoutSockets, log: p.log}).openGuards(context.Background())
	if err != nil {
		return err
	}
	g.close()
	_, err = p.openCertificates(&p.guards.tls, "tls")
	return err
}

// warnUnknownVariables warns of variables that look like settings of this program and are none.
func (s *settings) warnUnknownVariables(environ []string) {
	var unknown []string
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		suffix, ours := strings.CutPrefix(name, variablePrefix)
		if ours && value != "" && !s.knows(name) && !clientVariables[suffix] && !ofService.MatchString(suffix) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		s.warn("ignoring unknown variables: %s; redstalkd -h lists those that exist", strings.Join(unknown, ", "))
	}
}

// knows reports whether an option has this variable.
func (s *settings) knows(variable string) bool {
	return slices.ContainsFunc(s.options(), func(o *option) bool { return !o.hidden && o.set != nil && o.env() == variable })
}

// unset is how an option without a default is shown while it has no value.
func (o *option) unset() string {
	if o.takesValue() {
		return "none"
	}
	return "off"
}
