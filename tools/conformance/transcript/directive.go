package transcript

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// directive reads a line that is not dialogue.
func (p *parser) directive(s string) error {
	f := strings.Fields(s)
	if len(f) == 0 {
		return errors.New("a line of spaces")
	}
	verb, args := f[0], f[1:]
	switch verb {
	case "server":
		if p.seen {
			return errors.New("`server` must come before everything else")
		}
		p.t.flags = args
		return nil
	case "only":
		return p.openBlock(s)
	case "end":
		if p.only == nil {
			return errors.New("`end` without `only`")
		}
		p.only = nil
		return nil
	}
	st, err := p.simple(verb, args)
	if err != nil {
		return fmt.Errorf("%q: %w", s, err)
	}
	p.add(st)
	return nil
}

func (p *parser) openBlock(s string) error {
	kinds, reason, _ := strings.Cut(strings.TrimPrefix(s, "only"), ":")
	b := &block{kinds: strings.Fields(kinds), reason: strings.TrimSpace(reason)}
	switch {
	case p.only != nil:
		return errors.New("`only` inside `only`")
	case len(b.kinds) == 0 || b.reason == "":
		return errors.New("only KIND: reason")
	}
	p.only, p.seen = b, true
	return nil
}

var errArgs = errors.New("bad directive")

// simple reads the directives that are a step.
func (p *parser) simple(verb string, args []string) (step, error) {
	if len(args) == 0 {
		return nil, errArgs
	}
	at, one := p.here(), len(args) == 1
	switch verb {
	case "open", "close", "halfclose", "reset":
		if one {
			return &connStep{at, verb, args[0]}, nil
		}
	case "mark":
		if one {
			return &markStep{at, args[0]}, nil
		}
	case "signal":
		if _, ok := signals[args[0]]; ok && one {
			return &signalStep{at, args[0]}, nil
		}
	case "wait":
		return parseWait(at, args)
	case "silent":
		d, err := time.ParseDuration(args[len(args)-1])
		return &silentStep{at, args[:len(args)-1], d}, err
	case "eof":
		return parseEOF(at, args)
	case "race":
		n := slices.Index(args, "as")
		if n > 1 && len(args) == 2*n+1 {
			return &raceStep{at, args[:n], args[n+1:]}, nil
		}
	}
	return nil, errArgs
}

func parseWait(at place, args []string) (step, error) {
	d, err := time.ParseDuration(args[0])
	switch {
	case len(args) == 1:
		return &waitStep{at, d, ""}, err
	case len(args) == 3 && args[1] == "after":
		return &waitStep{at, d, args[2]}, err
	}
	return nil, errArgs
}

func parseEOF(at place, args []string) (step, error) {
	if len(args) == 1 {
		return &eofStep{at, args[0], nil}, nil
	}
	w, err := parseWindow(strings.Join(args[1:], " "))
	return &eofStep{at, args[0], w}, err
}
