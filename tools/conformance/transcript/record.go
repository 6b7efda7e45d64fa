package transcript

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// quiet is how long the recorder waits for replies that the file does not
// have.
const quiet = 60 * time.Millisecond

// Record plays the sent lines of t on a server, which should be the real
// beanstalkd, and returns the text of t with the replies that came. A reply
// that matches stays as written, with its variables, masks and times;
// another one is rewritten; one that does not come is removed; one that no
// line expects is added after the last line played. Times are kept, not
// checked: play the result to see whether they hold. Blocks for other kinds of
// server are not changed.
func Record(ctx context.Context, t *Transcript, target Target) (string, error) {
	if target.Patience == 0 {
		target.Patience = time.Second
	}
	r := &recorder{player: newPlayer(ctx, t, target), new: map[int][]string{}, gone: map[int]bool{}}
	defer r.closeAll()
	for i, s := range t.steps {
		if !s.base().on(target.Kind) {
			continue
		}
		if err := r.step(i, s); err != nil {
			return "", err
		}
		r.last = s.base().last
	}
	for name := range r.links {
		if err := r.drain(name); err != nil {
			return "", err
		}
	}
	return r.text(), nil
}

// A recorder is a player that records replies.
type recorder struct {
	*player
	new  map[int][]string // lines to add after a line
	gone map[int]bool     // lines to leave out
	last int              // last line of the previous step
}

// text is the file with all changes.
func (r *recorder) text() string {
	var out []string
	out = append(out, r.new[0]...)
	for i, s := range r.t.lines {
		if !r.gone[i+1] {
			out = append(out, s)
		}
		out = append(out, r.new[i+1]...)
	}
	return strings.Join(out, "\n") + "\n"
}

func (r *recorder) step(i int, s step) error {
	if e, ok := s.(*expectStep); ok {
		return r.expect(e)
	}
	if name, ends := speaker(s); name != "" && (ends || !r.answered(i, name)) {
		if err := r.drain(name); err != nil {
			return err
		}
	}
	return r.run(s)
}

// speaker returns the connection that a step sends or receives on, and whether the file
// must have all its replies by then.
func speaker(s step) (name string, ends bool) {
	switch s := s.(type) {
	case *sendStep:
		return s.conn, false
	case *connStep:
		if s.verb == "halfclose" { // replies may come before or after it
			return "", false
		}
		return s.conn, s.verb != "open"
	case *eofStep:
		return s.conn, true
	case *silentStep:
		return s.conns[0], len(s.conns) == 1
	}
	return "", false
}

// answered reports whether the file has an expectation on this connection since
// it last sent, or is still going to have one before it sends again: then
// nothing is missing that the recorder should add.
func (r *recorder) answered(i int, name string) bool {
	for i--; i >= 0; i-- {
		switch s := r.t.steps[i].(type) {
		case *expectStep:
			if s.conn == name {
				return true
			}
		case *sendStep:
			if s.conn == name {
				return false
			}
		}
	}
	return true
}

// drain records the pending replies of a connection.
func (r *recorder) drain(name string) error {
	if real, ok := r.alias[name]; ok {
		name = real
	}
	l, ok := r.links[name]
	if !ok {
		return nil
	}
	for {
		if err := l.until(r.ctx, time.Now().Add(quiet), l.whole); err != nil {
			return err
		}
		rep, ok, err := l.take()
		if !ok || err != nil {
			return err
		}
		r.log.add(rep.at, name, "< "+rep.String())
		r.new[r.last] = append(r.new[r.last], r.write(name, rep)...)
		if r.unanswered == name {
			r.unanswered = ""
		}
	}
}

// expect receives one reply and keeps or rewrites its lines.
func (r *recorder) expect(e *expectStep) error {
	rep, _, err := e.await(r.player)
	var m *Mismatch
	if errors.As(err, &m) {
		r.drop(e)
		return nil
	}
	if err != nil {
		return err
	}
	if e.compare(r.player, rep) == "" {
		return nil
	}
	r.drop(e)
	r.new[e.last] = append(r.new[e.last], r.rewrite(e, rep)...)
	return nil
}

func (r *recorder) drop(e *expectStep) {
	for i := e.first; i <= e.last; i++ {
		r.gone[i] = true
	}
}

// rewrite writes rep in the form of e where that fits.
func (r *recorder) rewrite(e *expectStep, rep reply) []string {
	intro := e.conn + "< "
	if e.when != nil {
		intro += e.when.src + " "
	}
	if page, err := parsePage(rep); err == nil && e.form == formWith {
		return []string{intro + "OK with " + joinKeys(r.refresh(e.keys, page))}
	}
	lines := r.write(e.conn, rep)
	lines[0] = intro + strings.TrimPrefix(lines[0], e.conn+"< ")
	return lines
}

// refresh keeps the expected keys and corrects their values.
func (r *recorder) refresh(keys []keyed, page []pageLine) []keyed {
	var out []keyed
	for _, k := range keys {
		i := slices.IndexFunc(page, func(l pageLine) bool { return l.key == k.key })
		if i < 0 {
			continue
		}
		if !k.accepts(page[i], &r.vars) {
			k.value.src = quote([]byte(page[i].value))
		}
		out = append(out, k)
	}
	return out
}

// write returns the lines for a reply, in which new ids become variables.
func (r *recorder) write(conn string, rep reply) []string {
	intro := conn + "< "
	if names, err := parseList(rep); err == nil {
		return []string{intro + "OK list " + strings.Join(names, " ")}
	}
	if page, err := parsePage(rep); err == nil {
		lines := []string{intro + "OK page"}
		for _, l := range page {
			lines = append(lines, "   "+l.key+": "+r.masked(l))
		}
		return lines
	}
	lines := []string{intro + r.writeHead(rep.Head)}
	if rep.Data {
		lines = append(lines, conn+"= "+quote(rep.Body))
	}
	return lines
}

var withID = regexp.MustCompile(`^(INSERTED|BURIED|RESERVED|FOUND) ([0-9]+)(.*)$`)

func (r *recorder) writeHead(head []byte) string {
	m := withID.FindSubmatch(head)
	if m == nil {
		return quote(head)
	}
	word := string(m[1])
	name, ok := r.nameOf(string(m[2]))
	if !ok && (word == "INSERTED" || word == "BURIED") {
		name, ok = r.newName(string(m[2])), true
	}
	if !ok {
		return quote(head)
	}
	return word + " $" + name + tail(m[3])
}

// tail quotes what follows the id, keeping its first space readable.
func tail(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return " " + quote(bytes.TrimPrefix(b, []byte(" ")))
}

func (r *recorder) nameOf(id string) (string, bool) {
	for name, v := range r.vars.byName {
		if strconv.FormatUint(v, 10) == id {
			return name, true
		}
	}
	return "", false
}

// newName binds an unused name to id.
func (r *recorder) newName(id string) string {
	v, _ := strconv.ParseUint(id, 10, 64)
	source := strings.Join(r.t.lines, "\n")
	for n := len(r.vars.byName) + 1; ; n++ {
		name := fmt.Sprintf("j%d", n)
		if _, used := r.vars.byName[name]; !used && !strings.Contains(source, "$"+name) {
			r.vars.byName[name], r.vars.max = v, max(v, r.vars.max)
			return name
		}
	}
}

// maskOf are masks for values that differ from run to run or host to host.
var maskOf = map[string]string{
	"pid": "{int}", "version": `{any}`, "rusage-utime": "{decimal}", "rusage-stime": "{decimal}",
	"uptime": "{int}", "age": "{int}", "hostname": "{any}", "os": "{any}", "platform": "{any}", "total-connections": "{int}",
}

func (r *recorder) masked(l pageLine) string {
	if m, ok := maskOf[l.key]; ok {
		return m
	}
	if l.key != "id" {
		return quote([]byte(l.value))
	}
	if name, ok := r.nameOf(l.value); ok {
		return "$" + name
	}
	return "{hex}"
}
