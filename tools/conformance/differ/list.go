package differ

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// list is the page of list-jobs.
type list struct {
	next string // where the next page begins, "" at the end
	jobs []page // a line for each job, as if it were a page
	bad  string // why it is malformed
}

// readList reads the page of list-jobs.
func readList(text string) (l list) {
	rest, ok := strings.CutPrefix(text, "---\nnext: ")
	if !ok {
		return list{bad: "no list"}
	}
	next, rest, _ := strings.Cut(rest, "\n")
	l.next = strings.Trim(next, `"`)
	if rest == "jobs: []\n" {
		return l
	}
	rest, ok = strings.CutPrefix(rest, "jobs:\n")
	if !ok || rest == "" || !strings.HasSuffix(rest, "\n") {
		return list{bad: "no list"}
	}
	for _, line := range strings.Split(strings.TrimSuffix(rest, "\n"), "\n") {
		inside, ok := strings.CutPrefix(line, "- {")
		inside, isToo := strings.CutSuffix(inside, "}")
		if !ok || !isToo {
			l.bad = fmt.Sprintf("the line %q", line)
			return l
		}
		l.jobs = append(l.jobs, readFlow(inside))
	}
	return l
}

// readFlow reads the inside of a map on one line. No value contains a comma and a space:
// keys of jobs have no space.
func readFlow(text string) (p page) {
	for _, entry := range strings.Split(text, ", ") {
		key, value, ok := strings.Cut(entry, ": ")
		if !ok {
			p.bad = fmt.Sprintf("the entry %q", entry)
		}
		p.lines = append(p.lines, pageLine{key, value})
	}
	return p
}

func (l list) ids() (ids []string) {
	for _, p := range l.jobs {
		ids = append(ids, p.value("id"))
	}
	return ids
}

// byLabel sorts the jobs of a list in an order that is the same on both servers.
func (l list) byLabel(label func(id uint64) int) {
	of := func(p page) int {
		id, _ := strconv.ParseUint(p.value("id"), 10, 64)
		return label(id)
	}
	slices.SortStableFunc(l.jobs, func(a, b page) int { return of(a) - of(b) })
}

// differsList returns the difference between two pages of list-jobs.
func (e *episode) differsList(a *sentCommand, judge, subject string) *Fault {
	want, got := readList(judge), readList(subject)
	if reservedList.MatchString(a.line) {
		want.byLabel(func(id uint64) int { return e.byJudge[id] })
		got.byLabel(func(id uint64) int { return e.bySubject[id] })
	}
	switch {
	case want.bad != got.bad:
		return &Fault{Want: "a list", Got: got.bad}
	case len(want.jobs) != len(got.jobs):
		return &Fault{Want: fmt.Sprint(len(want.jobs), " jobs"), Got: fmt.Sprint(len(got.jobs), " jobs")}
	case (want.next == "") != (got.next == ""):
		return &Fault{Want: fmt.Sprintf("next: %q", want.next), Got: fmt.Sprintf("next: %q", got.next)}
	}
	for i := range want.jobs {
		if theirs, ours := want.jobs[i].value("id"), got.jobs[i].value("id"); !e.sameJob(theirs, ours) {
			return &Fault{Want: "id: " + theirs, Got: "id: " + ours}
		}
		if f := comparePages(want.jobs[i], got.jobs[i], 1+e.stalled); f != nil {
			return f
		}
	}
	return nil
}
