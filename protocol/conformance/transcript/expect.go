package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// due is when something must happen, and how long to wait to see.
type due struct {
	timed            bool
	from             time.Time
	earliest, latest time.Duration // after from
	giveUp           time.Time
}

// due reckons a window; w may be nil.
func (p *player) due(l *link, w *window) (due, error) {
	if w == nil {
		return due{giveUp: time.Now().Add(p.target.Patience)}, nil
	}
	from := l.lastSend
	if w.mark != "" {
		m, ok := p.marks[w.mark]
		if !ok {
			return due{}, fmt.Errorf("no mark %s", w.mark)
		}
		from = m
	}
	d := due{timed: true, from: from, earliest: w.lo - granularity, latest: w.hi + p.target.Slack}
	p.clock.allowUntil(from.Add(w.hi))
	// Wait on for a while, to tell late from never.
	d.giveUp = from.Add(d.latest + p.target.Patience)
	return d, nil
}

// misses says how at lies outside of d, or nothing.
func (d due) misses(at time.Time) string {
	after := at.Sub(d.from)
	switch {
	case !d.timed:
		return ""
	case after < d.earliest:
		return fmt.Sprintf("it too early, after %v", after.Round(time.Microsecond))
	case after > d.latest:
		return fmt.Sprintf("it too late, after %v", after.Round(time.Microsecond))
	}
	return ""
}

// play hears one reply. If it answers a question that may be asked again, it
// asks until the answer is right or Patience is over.
func (e *expectStep) play(p *player) error {
	q := p.question
	err := e.hear(p)
	if q == nil || !q.again || q.conn != e.conn {
		return err
	}
	p.clock.allow(p.target.Patience)
	var m *Mismatch
	for end := time.Now().Add(p.target.Patience); errors.As(err, &m) && time.Now().Before(end); err = e.hear(p) {
		if err := p.sleep(10 * time.Millisecond); err != nil {
			return err
		}
		if err := q.play(p); err != nil {
			return err
		}
	}
	return err
}

// hear takes the next reply and compares it.
func (e *expectStep) hear(p *player) error {
	r, d, err := e.await(p)
	if err != nil {
		return err
	}
	if miss := e.compare(p, r); miss != "" {
		return p.mismatch(e.base(), e.String(), r.String()+miss)
	}
	if miss := d.misses(r.at); miss != "" {
		return p.mismatch(e.base(), e.String(), miss)
	}
	return nil
}

// await takes the next reply on the connection; none is a Mismatch.
func (e *expectStep) await(p *player) (reply, due, error) {
	l, err := p.link(e.conn)
	if err != nil {
		return reply{}, due{}, err
	}
	d, err := p.due(l, e.when)
	if err != nil {
		return reply{}, d, err
	}
	if err := l.until(p.ctx, d.giveUp, l.whole); err != nil {
		return reply{}, d, err
	}
	r, ok, err := l.take()
	switch over, _ := l.ended(); {
	case err != nil:
		return r, d, p.mismatch(e.base(), e.String(), err.Error())
	case !ok && over:
		return r, d, p.mismatch(e.base(), e.String(), "the end of the connection")
	case !ok:
		p.clock.allowUntil(d.giveUp)
		return r, d, p.mismatch(e.base(), e.String(), "nothing")
	}
	p.log.add(r.at, e.conn, "< "+r.String())
	if p.unsettled == l.name {
		p.unsettled = ""
	}
	return r, d, nil
}

// String is the expectation as written.
func (e *expectStep) String() string {
	var b strings.Builder
	if e.when != nil {
		b.WriteString(e.when.src + " ")
	}
	switch e.form {
	case formLine:
		b.WriteString(e.head.src)
	case formBody:
		b.WriteString(e.head.src + " / " + e.body.src)
	case formList:
		b.WriteString("OK list " + strings.Join(e.list, " "))
	case formSet:
		b.WriteString("OK set " + strings.Join(e.list, " "))
	case formWith:
		b.WriteString("OK with " + joinKeys(e.keys))
	case formPage:
		b.WriteString("OK page " + joinKeys(e.keys))
	}
	return b.String()
}

func joinKeys(keys []keyed) string {
	var parts []string
	for _, k := range keys {
		parts = append(parts, k.key+": "+k.value.src)
	}
	return strings.Join(parts, ", ")
}

// compare says how r differs from what is expected, beyond what the two show;
// it returns "" only if they agree, and then binds the variables.
func (e *expectStep) compare(p *player, r reply) string {
	switch e.form {
	case formLine, formBody:
		return e.comparePlain(p, r)
	case formList, formSet:
		return e.compareList(r)
	}
	page, err := parsePage(r)
	if err != nil {
		return ": " + err.Error()
	}
	if e.form == formPage {
		return e.comparePage(p, page)
	}
	for _, k := range e.keys {
		i := slices.IndexFunc(page, func(l pageLine) bool { return l.key == k.key })
		if i < 0 {
			return ": no key " + k.key
		}
		if !k.accepts(page[i], &p.vars) {
			return fmt.Sprintf(": %s is %s", k.key, page[i].value)
		}
	}
	return ""
}

const differs = " (differs)"

func (e *expectStep) comparePlain(p *player, r reply) string {
	bind := map[string]uint64{}
	if !e.head.match(r.head, &p.vars, bind) || r.data != (e.form == formBody) {
		return differs
	}
	if r.data && !e.body.match(r.body, &p.vars, nil) {
		return differs
	}
	return p.bind(bind, r)
}

// bind gives new variables their ids. Only a put's reply may do so, and the
// id must be greater than all before.
func (p *player) bind(bind map[string]uint64, r reply) string {
	for name, id := range bind {
		word, _, _ := bytes.Cut(r.head, []byte(" "))
		if string(word) != "INSERTED" && string(word) != "BURIED" {
			return ": $" + name + " has no value yet"
		}
		if id <= p.vars.max {
			return fmt.Sprintf(": id %d is not greater than %d", id, p.vars.max)
		}
		p.vars.max, p.vars.byName[name] = id, id
	}
	return ""
}

func (e *expectStep) compareList(r reply) string {
	names, err := parseList(r)
	if err != nil {
		return ": " + err.Error()
	}
	want := slices.Clone(e.list)
	if e.form == formSet {
		slices.Sort(want)
		slices.Sort(names)
	}
	if !slices.Equal(want, names) {
		return differs
	}
	return ""
}

func (e *expectStep) comparePage(p *player, page []pageLine) string {
	for i, k := range e.keys {
		switch {
		case i >= len(page):
			return ": no key " + k.key
		case page[i].key != k.key:
			return fmt.Sprintf(": key %d is %s instead of %s", i+1, page[i].key, k.key)
		case !k.accepts(page[i], &p.vars):
			return fmt.Sprintf(": %s is %s", k.key, page[i].value)
		}
	}
	return ""
}

// accepts compares a value, as it is or without its quotes.
func (k keyed) accepts(l pageLine, v *vars) bool {
	return k.value.match([]byte(l.value), v, nil) || k.value.match([]byte(unquote(l.value)), v, nil)
}

func unquote(s string) string {
	if n := len(s); n >= 2 && s[0] == '"' && s[n-1] == '"' {
		return s[1 : n-1]
	}
	return s
}

// pageLine is one line of a stats page as it came.
type pageLine struct{ key, value string }

var pageKey = regexp.MustCompile(`^[a-z-]+$`)

// yaml splits the body of an OK reply into its lines.
func yaml(r reply) ([]string, error) {
	body, ok := strings.CutPrefix(string(r.body), "---\n")
	switch {
	case !r.data || !bytes.HasPrefix(r.head, []byte("OK ")):
		return nil, fmt.Errorf("not a page")
	case !ok:
		return nil, fmt.Errorf("the page does not start with ---")
	case !strings.HasSuffix(body, "\n"):
		return nil, fmt.Errorf("the page does not end with a line end")
	}
	return strings.Split(strings.TrimSuffix(body, "\n"), "\n"), nil
}

// parsePage reads a dictionary: every line key: value, no key twice.
func parsePage(r reply) ([]pageLine, error) {
	lines, err := yaml(r)
	if err != nil {
		return nil, err
	}
	var page []pageLine
	seen := map[string]bool{}
	for _, s := range lines {
		k, v, ok := strings.Cut(s, ": ")
		if !ok || !pageKey.MatchString(k) || v == "" || v != strings.TrimSpace(v) || seen[k] {
			return nil, fmt.Errorf("bad line %q in the page", s)
		}
		seen[k] = true
		page = append(page, pageLine{k, v})
	}
	return page, nil
}

func parseList(r reply) ([]string, error) {
	lines, err := yaml(r)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range lines {
		name, ok := strings.CutPrefix(s, "- ")
		if !ok {
			return nil, fmt.Errorf("bad line %q in the list", s)
		}
		names = append(names, name)
	}
	return names, nil
}

// String is the reply as a transcript would write it, shortened.
func (r reply) String() string {
	if !r.data {
		return clip(r.head)
	}
	return clip(r.head) + " / " + clip(r.body)
}

// clip quotes b, leaving out the middle if it is long.
func clip(b []byte) string {
	s := quote(b)
	if len(s) > 2000 {
		s = s[:1000] + " ... " + s[len(s)-900:]
	}
	return s
}

// A dialog is what was said, for error messages.
type dialog struct {
	start time.Time
	lines []string
}

func (d *dialog) add(at time.Time, conn, what string) {
	if n := len(what); n > 300 {
		what = what[:200] + " ... " + what[n-80:]
	}
	d.lines = append(d.lines, fmt.Sprintf("  %8.3fs %s %s", at.Sub(d.start).Seconds(), conn, what))
}

// String is the last part of the dialogue.
func (d *dialog) String() string {
	lines := d.lines
	if len(lines) > 40 {
		lines = append([]string{"  ..."}, lines[len(lines)-40:]...)
	}
	return strings.Join(lines, "\n")
}
