package transcript

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// A Transcript is one parsed file.
type Transcript struct {
	Name  string // what errors call it: the path, or a test's own name
	lines []string
	flags []string
	steps []step
}

// Flags are the server flags the transcript asks for, such as -z 10.
func (t *Transcript) Flags() []string { return t.flags }

// Plays reports whether anything is played on a server of this kind; it is false
// if every step stands in an `only` block for others.
func (t *Transcript) Plays(kind string) bool {
	for _, s := range t.steps {
		if s.base().on(kind) {
			return true
		}
	}
	return false
}

// A block is the `only` block a step stands in.
type block struct {
	kinds  []string
	reason string
}

// place is the position of a step: its lines, counted from 1, and its block.
type place struct {
	first, last int
	only        *block
}

func (p *place) base() *place { return p }

// on reports whether the step is played on this kind of server.
func (p *place) on(kind string) bool {
	if p.only == nil {
		return true
	}
	for _, k := range p.only.kinds {
		if kind == k || strings.HasPrefix(kind, k+"-") {
			return true
		}
	}
	return false
}

// A step is one thing the player does.
type step interface {
	base() *place
	play(p *player) error
}

type (
	sendStep struct { // texts go out in one write
		place
		conn   string
		texts  []text
		lineup []bool // whether CR LF follows each text
		slowly bool   // a byte at a time
		again  bool   // sent again until the expected reply comes
	}
	expectStep struct {
		place
		conn string
		when *window
		form form
		head text    // the whole first line, unless form is a page
		body text    // the body, for formBody
		keys []keyed // for formWith and formPage
		list []string
	}
	connStep struct { // open, close, halfclose, reset
		place
		verb, conn string
	}
	eofStep struct {
		place
		conn string
		when *window
	}
	silentStep struct {
		place
		conns []string
		d     time.Duration
	}
	waitStep struct {
		place
		d    time.Duration
		mark string // sleep until d after it, if not empty
	}
	markStep struct {
		place
		name string
	}
	signalStep struct {
		place
		name string
	}
	raceStep struct {
		place
		conns, names []string
	}
)

// A form is how an expected reply is written.
type form int

const (
	formLine form = iota
	formBody      // data reply, body written out
	formList      // names in order
	formSet       // names in any order
	formWith      // some keys
	formPage      // all keys in order
)

var formWords = map[string]form{"list": formList, "set": formSet, "with": formWith, "page": formPage}

// keyed is one line of a stats page.
type keyed struct {
	key   string
	value text
}

// A window is when a reply is due, counted from a mark or, if that is empty,
// from the last send on its connection.
type window struct {
	src    string
	lo, hi time.Duration
	mark   string
}

var (
	dialogue  = regexp.MustCompile(`^([a-z][a-z0-9]*)(>>|~>|\?>|>|<|=)(?: (.*))?$`)
	windowed  = regexp.MustCompile(`^(\[[^\]]*\]) ?(.*)$`)
	dataReply = regexp.MustCompile(`^((RESERVED|FOUND) \S+|(LEASED|ENDED) \S+ \S+|OK) [^ ]+$`)
	indented  = regexp.MustCompile(`^\s+([a-z0-9-]+): (.*)$`)
)

type parser struct {
	t    *Transcript
	n    int // line being read, counted from 1
	only *block
	seen bool // a step has been read
}

// Parse reads a transcript. Its name is used in errors, which also name the
// line.
func Parse(name, text string) (*Transcript, error) {
	text = strings.TrimSuffix(text, "\n")
	p := &parser{t: &Transcript{Name: name, lines: strings.Split(text, "\n")}}
	for p.n = 1; p.n <= len(p.t.lines); p.n++ {
		if err := p.line(p.t.lines[p.n-1]); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, p.n, err)
		}
	}
	if p.only != nil {
		return nil, fmt.Errorf("%s:%d: `only` without `end`", name, p.n)
	}
	if err := p.complete(); err != nil {
		return nil, err
	}
	return p.t, nil
}

// complete checks at the end of a file that data replies have bodies.
func (p *parser) complete() error {
	for _, s := range p.t.steps {
		e, ok := s.(*expectStep)
		if !ok {
			continue
		}
		if e.form == formLine && dataReply.MatchString(e.head.src) {
			return fmt.Errorf("%s:%d: a data reply needs its body, in a %s= line", p.t.Name, e.first, e.conn)
		}
		if e.form == formPage && len(e.keys) == 0 {
			return fmt.Errorf("%s:%d: a page needs its keys, in indented lines", p.t.Name, e.first)
		}
	}
	return nil
}

func (p *parser) line(s string) error {
	if s == "" || s[0] == '#' {
		return nil
	}
	if m := indented.FindStringSubmatch(s); m != nil {
		return p.key(m[1], m[2])
	}
	m := dialogue.FindStringSubmatch(s)
	if m == nil {
		return p.directive(s)
	}
	switch m[2] {
	case "<":
		return p.expect(m[1], m[3])
	case "=":
		return p.body(m[1], m[3])
	}
	return p.send(m[1], m[2], m[3])
}

func (p *parser) here() place { return place{first: p.n, last: p.n, only: p.only} }

func (p *parser) add(s step) {
	p.seen = true
	p.t.steps = append(p.t.steps, s)
}

// last is the previous step, if it ended in the line before.
func (p *parser) last() step {
	if n := len(p.t.steps); n > 0 && p.t.steps[n-1].base().last == p.n-1 {
		return p.t.steps[n-1]
	}
	return nil
}

func (p *parser) send(conn, op, src string) error {
	t, err := parseText(src)
	if err != nil {
		return err
	}
	if t.hasMask() {
		return errors.New("a mask cannot be sent")
	}
	alone := op == "~>" || op == "?>"
	if s, ok := p.last().(*sendStep); ok && s.conn == conn && !s.slowly && !s.again && !alone {
		s.texts, s.lineup, s.place.last = append(s.texts, t), append(s.lineup, op == ">"), p.n
		return nil
	}
	p.add(&sendStep{place: p.here(), conn: conn, texts: []text{t}, lineup: []bool{op != ">>"}, slowly: op == "~>", again: op == "?>"})
	return nil
}

func (p *parser) expect(conn, src string) error {
	e := &expectStep{place: p.here(), conn: conn}
	if m := windowed.FindStringSubmatch(src); m != nil {
		w, err := parseWindow(m[1])
		if err != nil {
			return err
		}
		e.when, src = w, m[2]
	}
	word, rest, _ := strings.Cut(strings.TrimPrefix(src, "OK "), " ")
	if f, ok := formWords[word]; ok && strings.HasPrefix(src, "OK ") {
		e.form = f
		p.add(e)
		return e.page(rest)
	}
	var err error
	e.head, err = parseText(src)
	p.add(e)
	return err
}

// page reads what follows OK list, OK set, OK with.
func (e *expectStep) page(rest string) error {
	switch e.form {
	case formList, formSet:
		e.list = strings.Fields(rest)
	case formWith:
		for _, kv := range strings.Split(rest, ", ") {
			k, v, ok := strings.Cut(kv, ": ")
			if !ok {
				return fmt.Errorf("%q is not key: value", kv)
			}
			if err := e.addKey(k, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *expectStep) addKey(k, v string) error {
	t, err := parseText(v)
	e.keys = append(e.keys, keyed{k, t})
	return err
}

func (p *parser) key(k, v string) error {
	e, ok := p.last().(*expectStep)
	if !ok || e.form != formPage {
		return errors.New("an indented line belongs under OK page")
	}
	e.place.last = p.n
	return e.addKey(k, v)
}

func (p *parser) body(conn, src string) error {
	e, ok := p.last().(*expectStep)
	if !ok || e.conn != conn || e.form != formLine || !dataReply.MatchString(e.head.src) {
		return errors.New("a body belongs under RESERVED, LEASED, FOUND, ENDED or OK of the same connection")
	}
	var err error
	e.body, err = parseText(src)
	e.form, e.place.last = formBody, p.n
	return err
}

// parseWindow reads [now], [1s], [1s..2s], each with an optional "after m".
func parseWindow(s string) (*window, error) {
	w := &window{src: s}
	inner := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	inner, w.mark, _ = strings.Cut(inner, " after ")
	if inner == "now" {
		return w, nil
	}
	lo, hi, ranged := strings.Cut(inner, "..")
	if !ranged {
		hi = lo
	}
	var err1, err2 error
	w.lo, err1 = time.ParseDuration(lo)
	w.hi, err2 = time.ParseDuration(hi)
	return w, errors.Join(err1, err2)
}
