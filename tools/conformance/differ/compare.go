package differ

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Fault is a different or missing reply of the subject. For a
// stats page Want and Got are the line that differs. Conn is -1 if the
// server does not become idle.
type Fault struct {
	Conn      int
	Verb      string
	Want, Got string

	// certain reports that a slow machine cannot be the cause.
	certain bool
}

// Error describes the difference.
func (f *Fault) Error() string {
	where := "connection " + connName(f.Conn) + ", " + f.Verb
	if f.Conn < 0 {
		where = "the server when idle, by its stats"
	}
	return fmt.Sprintf("%s: want %s, got %s", where, f.Want, f.Got)
}

// like reports whether two faults look the same.
func (f *Fault) like(other *Fault) bool { return f.kind() == other.kind() }

func (f *Fault) kind() string {
	word := func(s string) string {
		w, _, _ := strings.Cut(strings.Trim(s, `"`), " ")
		return w
	}
	return f.Verb + ": " + word(f.Want) + " / " + word(f.Got)
}

// consume compares the replies that both have sent, n[id] of each connection,
// and learns from them.
func (e *episode) consume(n map[int]int) error {
	type both struct {
		to           *sentCommand
		conn         int
		judge, other reply
	}
	e.lasted(e.begun)
	var pairs []both
	for _, id := range slices.Sorted(maps.Keys(n)) {
		c := e.conns[id]
		theirs, ours := e.judge.take(id, n[id]), e.subject.take(id, n[id])
		for i := range theirs {
			pairs = append(pairs, both{c.pending[i], id, theirs[i], ours[i]})
		}
		if c.pending = c.pending[n[id]:]; !c.waits() {
			c.behind = 0
		}
	}
	last := &e.log[len(e.log)-1]
	for _, p := range pairs {
		last.came = append(last.came, answer{p.conn, p.to, p.judge})
		e.bind(p.to, p.judge.head, p.other.head)
	}
	for _, p := range pairs {
		e.compared++
		e.covered.add(p.to.verb, p.judge.head)
		if f := e.differs(p.to, p.judge, p.other); f != nil {
			f.Conn, f.Verb = p.conn, p.to.verb
			f.certain = p.to.closeWait && strings.HasPrefix(p.judge.head, "RESERVED ") && p.other.head == "TIMED_OUT"
			return f
		}
		e.done = maxTime(p.judge.at, p.other.at)
		e.learn(p.conn, p.to, p.judge)
	}
	return nil
}

// logUnmatched records replies of the judge that the subject has not sent, for
// the transcript.
func (e *episode) logUnmatched() {
	last := &e.log[len(e.log)-1]
	for _, id := range slices.Sorted(maps.Keys(e.conns)) {
		c := e.conns[id]
		extra := e.judge.take(id, min(len(e.judge.peek(id)), len(c.pending)))
		for i, r := range extra {
			if strings.Count(r.head, " ") == 1 {
				e.bind(c.pending[i], r.head, "INSERTED 0")
			}
			last.came = append(last.came, answer{id, c.pending[i], r})
		}
		if _, ended := e.judge.received(id); ended && c.over() {
			last.end = append(last.end, id)
		}
	}
}

func show(r reply) string {
	if !r.data {
		return fmt.Sprintf("%q", r.head)
	}
	return fmt.Sprintf("%q and %.400q", r.head, r.body)
}

// bind records the ids of a job that both have inserted.
func (e *episode) bind(a *sentCommand, judge, subject string) {
	theirs, ok1 := strings.CutPrefix(judge, "INSERTED ")
	ours, ok2 := strings.CutPrefix(subject, "INSERTED ")
	if !ok1 || !ok2 || strings.Contains(theirs, " ") || strings.Contains(ours, " ") {
		return
	}
	e.lasted(a.since)
	label := a.label
	if label == 0 || e.jobs[label] != nil {
		e.fresh++
		label = e.fresh
	}
	j := &job{}
	j.judge, _ = strconv.ParseUint(theirs, 10, 64)
	j.subject, _ = strconv.ParseUint(ours, 10, 64)
	if times := a.seconds(); len(times) == 2 {
		j.ttr = int(min(times[1], latest))
	}
	e.jobs[label], e.byJudge[j.judge] = j, label
	if e.bySubject[j.subject] == 0 {
		e.bySubject[j.subject] = label
	}
	e.alive = append(e.alive, label)
}

// differs returns the difference between two replies; nil if there is none.
func (e *episode) differs(a *sentCommand, judge, subject reply) *Fault {
	j, s := strings.Fields(judge.head), strings.Fields(subject.head)
	fault := &Fault{Want: show(judge), Got: show(subject)}
	if len(j) == 0 || len(s) == 0 || j[0] != s[0] || len(j) != len(s) || judge.data != subject.data {
		return fault
	}
	same := judge.head == subject.head
	switch j[0] {
	case "INSERTED":
		same = len(j) == 2 && e.sameInserted(j[1], s[1])
	case "RESERVED", "FOUND":
		same = e.sameJob(j[1], s[1]) && j[2] == s[2] && judge.body == subject.body
	case "OK":
		switch a.verb {
		case "stats", "stats-job", "stats-tube":
			return e.differsPage(a, judge.body, subject.body)
		}
		same = judge.body == subject.body
		if e.unordered && a.verb == "list-tubes" {
			same = slices.Equal(sortedLines(judge.body), sortedLines(subject.body))
		}
	}
	if same {
		return nil
	}
	return fault
}

func sortedLines(text string) []string { return slices.Sorted(strings.SplitSeq(text, "\n")) }

// sameInserted: ids must be new and grow.
func (e *episode) sameInserted(judge, subject string) bool {
	if !e.sameJob(judge, subject) {
		return false
	}
	mine := e.jobs[e.byLabelOfJudge(judge)]
	for _, other := range e.alive {
		if o := e.jobs[other]; o.judge < mine.judge && o.subject >= mine.subject {
			return false
		}
	}
	return true
}

func (e *episode) byLabelOfJudge(id string) int {
	n, _ := strconv.ParseUint(id, 10, 64)
	return e.byJudge[n]
}

func (e *episode) sameJob(judge, subject string) bool {
	n, err := strconv.ParseUint(subject, 10, 64)
	label := e.byLabelOfJudge(judge)
	return err == nil && label != 0 && label == e.bySubject[n]
}

func (e *episode) differsPage(a *sentCommand, judge, subject string) *Fault {
	want := readPage(judge).withoutControl(a.verb, a.probesJudge)
	got := readPage(subject).withoutControl(a.verb, a.probesSubject)
	if a.verb == "stats-job" && e.sameJob(want.value("id"), got.value("id")) {
		got.set("id", want.value("id"))
	}
	for _, key := range lagging {
		if a.verb == "stats-tube" && e.stale && isCount(got.value(key)) {
			got.set(key, want.value(key))
		}
	}
	return comparePages(want, got, 1+e.stalled)
}

// isCount reports whether a value is a number; for the tube default it can be less
// than what is subtracted for the control connection, until that is known everywhere.
func isCount(value string) bool {
	_, err := strconv.Atoi(value)
	return err == nil
}
