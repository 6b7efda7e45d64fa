package differ

import (
	"fmt"
	"strings"
	"time"
)

// connName is the name of a connection in a transcript.
func connName(id int) string {
	if 1 <= id && id <= 26 {
		return string(rune('a' + id - 1))
	}
	return fmt.Sprint("c", id)
}

// writer prints what was played as a transcript that holds on the judge.
type writer struct {
	strings.Builder
	e    *episode
	last bool   // this is the last step, which shows the difference
	now  uint64 // when the step was begun, see names
}

// transcript returns the played script in the format of
// tools/conformance/transcript, with the replies of the judge.
func (e *episode) transcript(comment string) string {
	w := &writer{e: e}
	for _, line := range strings.Split(strings.TrimSpace(comment), "\n") {
		fmt.Fprintf(w, "# %s\n", line)
	}
	if e.max != defaultMax {
		fmt.Fprintf(w, "server -z %d\n", e.max)
	}
	var before time.Time
	for i, entry := range e.log {
		w.last = i == len(e.log)-1
		w.WriteByte('\n')
		if gap := entry.at.Sub(before); !before.IsZero() && gap > guard/2 && e.timed {
			fmt.Fprintf(w, "wait %dms\n", gap.Milliseconds())
		}
		before = entry.at
		w.entry(entry)
	}
	return w.String()
}

func (w *writer) entry(en entry) {
	name := connName(en.step.conn)
	w.now = uint64(en.at.UnixMilli())
	switch en.step.act {
	case drain:
		w.WriteString("signal USR1\n")
	case quiet:
		fmt.Fprintf(w, "wait %dms\n", w.e.lag.Milliseconds())
	case half:
		fmt.Fprintf(w, "halfclose %s\n", name)
	case hangUp:
		fmt.Fprintf(w, "close %s\n", name)
	case send:
		w.packet(name, en.step.commands)
		if en.step.fin {
			fmt.Fprintf(w, "halfclose %s\n", name)
		}
	}
	for _, a := range en.came {
		w.answer(a)
	}
	for _, id := range en.end {
		fmt.Fprintf(w, "eof %s\n", connName(id))
	}
}

// packet prints sent bytes, a line for each CRLF in them.
func (w *writer) packet(name string, commands []command) {
	var line strings.Builder
	pending := false
	for _, c := range commands {
		for _, part := range w.parts(c) {
			if part.name != "" {
				line.WriteString("$" + part.name)
				pending = true
				continue
			}
			text := part.text
			for {
				one, after, found := strings.Cut(text, "\r\n")
				line.WriteString(quote(one, part.afterName))
				part.afterName = false
				pending = pending || one != ""
				if !found {
					break
				}
				fmt.Fprintf(w, "%s> %s\n", name, edges(line.String()))
				line.Reset()
				pending, text = false, after
			}
		}
	}
	if pending {
		fmt.Fprintf(w, "%s>> %s\n", name, edges(line.String()))
	}
}

// part is bytes to be sent, or the name of a job whose id is to be sent.
type part struct {
	text, name string
	afterName  bool // a name stands before the text
}

func (w *writer) parts(c command) (parts []part) {
	line, named := c.line, false
	for _, at := range refs.FindAllStringSubmatchIndex(c.line, -1) {
		start := at[0] - (len(c.line) - len(line))
		label := c.line[at[2]:at[3]]
		parts = append(parts, part{text: line[:start], afterName: named})
		line = c.line[at[1]:]
		var n int
		fmt.Sscan(label, &n)
		if w.e.jobs[n] == nil {
			parts = append(parts, part{text: noSuchJob})
			named = false
			continue
		}
		named = true
		parts = append(parts, part{name: jobName(n)})
	}
	return append(parts, part{text: line + c.payload, afterName: named})
}

func jobName(label int) string { return fmt.Sprint("j", label) }

// edges protects a space that an editor might strip.
func edges(s string) string {
	if strings.HasPrefix(s, " ") {
		s = `\s` + s[1:]
	}
	if strings.HasSuffix(s, " ") {
		s = s[:len(s)-1] + `\s`
	}
	return s
}

func (w *writer) answer(a answer) {
	name := connName(a.conn)
	words := strings.Fields(a.reply.head)
	switch {
	case words[0] == "OK" && strings.HasPrefix(a.to.verb, "list-"):
		list := strings.ReplaceAll(strings.TrimPrefix(a.reply.body, "---\n"), "- ", "")
		fmt.Fprintf(w, "%s< OK list %s\n", name, strings.ReplaceAll(strings.TrimSpace(list), "\n", " "))
		return
	case words[0] == "OK":
		w.page(name, a)
		return
	case words[0] == "INSERTED" || words[0] == "RESERVED" || words[0] == "FOUND":
		if label := w.e.byLabelOfJudge(words[1]); label != 0 {
			words[1] = "$" + jobName(label)
		}
		fmt.Fprintf(w, "%s< %s\n", name, strings.Join(words, " "))
	default:
		fmt.Fprintf(w, "%s< %s\n", name, edges(quote(a.reply.head, false)))
	}
	if a.reply.data {
		fmt.Fprintf(w, "%s= %s\n", name, edges(quote(a.reply.body, false)))
	}
}

// page prints a stats page without the values that may differ; unless it is the last one,
// only its beginning.
func (w *writer) page(name string, a answer) {
	p := readPage(a.reply.body).withoutControl(a.to.verb, a.to.probesJudge)
	if !w.last {
		var some []string
		for _, l := range p.lines[:min(4, len(p.lines))] {
			some = append(some, l.key+": "+w.value(l, p, a))
		}
		fmt.Fprintf(w, "%s< OK with %s\n", name, strings.Join(some, ", "))
		return
	}
	fmt.Fprintf(w, "%s< OK page\n", name)
	for _, l := range p.lines {
		fmt.Fprintf(w, "   %s: %s\n", l.key, w.value(l, p, a))
	}
}

// value returns the expectation for a line of a page.
func (w *writer) value(l pageLine, p page, a answer) string {
	if label := w.e.byLabelOfJudge(l.value); l.key == "id" && a.to.verb == "stats-job" && label != 0 {
		return "$" + jobName(label)
	}
	switch ruleFor(l.key, p) {
	case free:
		return "{any}"
	case near:
		return "{int}"
	case quoting:
		if l.key != "tube" && l.key != "name" {
			return "{any}"
		}
		return edges(quote(strings.Trim(l.value, `"`), false))
	}
	return edges(quote(l.value, false))
}

// quote writes bytes in the form of a transcript. afterName reports that a job's name
// precedes them, which they must not extend.
func quote(s string, afterName bool) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		c, run := s[i], 1
		for i+run < len(s) && s[i+run] == c {
			run++
		}
		switch one := quoteByte(c, s[i+1:]); {
		case run >= 30:
			fmt.Fprintf(&b, "{%s*%d}", quoteByte(c, ""), run)
			i += run
			continue
		case i == 0 && afterName && ('a' <= c && c <= 'z' || '0' <= c && c <= '9'):
			fmt.Fprintf(&b, "{%s*1}", one)
		default:
			b.WriteString(one)
		}
		i++
	}
	return b.String()
}

var escapes = map[byte]string{'\r': `\r`, '\n': `\n`, '\t': `\t`, 0: `\0`, '\\': `\\`, '{': `\{`, '}': `\}`}

func quoteByte(c byte, rest string) string {
	if e, ok := escapes[c]; ok {
		return e
	}
	switch {
	case c == '$' && rest != "" && 'a' <= rest[0] && rest[0] <= 'z':
		return `\$`
	case c < ' ' || c >= 0x7f:
		return fmt.Sprintf(`\x%02x`, c)
	}
	return string(rune(c))
}
