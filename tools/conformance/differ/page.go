package differ

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// page is the YAML of a stats command.
type page struct {
	lines []pageLine
	bad   string // why it is malformed
}

type pageLine struct{ key, value string }

// readPage reads a page of keys and values.
func readPage(text string) page {
	var p page
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok || !strings.HasSuffix(rest, "\n") {
		p.bad = "no page"
		return p
	}
	for _, line := range strings.Split(strings.TrimSuffix(rest, "\n"), "\n") {
		key, value, ok := strings.Cut(line, ": ")
		if !ok {
			p.bad = fmt.Sprintf("the line %q", line)
		}
		p.lines = append(p.lines, pageLine{key, value})
	}
	return p
}

func (p page) value(key string) string {
	for _, l := range p.lines {
		if l.key == key {
			return l.value
		}
	}
	return ""
}

// add changes a count.
func (p page) add(key string, n int) {
	for i, l := range p.lines {
		if old, err := strconv.Atoi(l.value); l.key == key && err == nil {
			p.lines[i].value = strconv.Itoa(old + n)
		}
	}
}

// withoutControl subtracts the effect of the control connection from a page.
func (p page) withoutControl(verb string, probes int) page {
	if verb == "stats" {
		p.add("cmd-stats", -probes)
		p.add("current-connections", -1)
		p.add("total-connections", -1)
	}
	if verb == "stats-tube" && p.value("name") == "default" {
		p.add("current-using", -1)
		p.add("current-watching", -1)
	}
	return p
}

// comparePages returns the difference between two pages, nil if there is none.
// Times may differ by this many seconds.
func comparePages(want, got page, seconds int) *Fault {
	if got.bad != want.bad {
		return &Fault{Want: "a page", Got: got.bad}
	}
	for i, w := range want.lines {
		if i >= len(got.lines) {
			return &Fault{Want: w.String(), Got: "the end of the page"}
		}
		if g := got.lines[i]; g.key != w.key || !valuesAgree(w.key, w.value, g.value, want, seconds) {
			return &Fault{Want: w.String(), Got: g.String()}
		}
	}
	for _, more := range got.lines[len(want.lines):] {
		if slices.ContainsFunc(want.lines, func(l pageLine) bool { return l.key == more.key }) {
			return &Fault{Want: "each key once", Got: more.String()}
		}
	}
	return nil
}

func (l pageLine) String() string { return l.key + ": " + l.value }

func valuesAgree(key, want, got string, all page, seconds int) bool {
	switch ruleFor(key, all) {
	case free:
		return got != ""
	case near:
		return within(want, got, seconds)
	case nearMs:
		return within(want, got, seconds*1000-700)
	case quoting:
		return strings.Trim(want, `"`) == strings.Trim(got, `"`)
	}
	return want == got
}

// within reports whether two values are numbers that differ by at most most.
func within(want, got string, most int) bool {
	w, err1 := strconv.Atoi(want)
	g, err2 := strconv.Atoi(got)
	return err1 == nil && err2 == nil && -most <= g-w && g-w <= most
}

func (p page) set(key, value string) {
	for i := range p.lines {
		if p.lines[i].key == key {
			p.lines[i].value = value
		}
	}
}
