package differ

import (
	"slices"
	"strconv"
	"strings"
)

// learn records what a reply of the judge means for the next commands: which
// connection watches and holds what, and which events will come.
func (e *episode) learn(id int, a *sentCommand, r reply) {
	c := e.conns[id]
	words := strings.Fields(r.head)
	switch words[0] {
	case "USING":
		c.used = words[1]
	case "WATCHING":
		e.learnWatching(c, a)
	case "RESERVED":
		label := e.byLabelOfJudge(words[1])
		c.held[label] = true
		e.armReserved(id, label)
	case "TOUCHED":
		label := e.labelIn(a.line)
		e.disarm(label)
		e.armReserved(id, label)
	case "INSERTED":
		if times := a.seconds(); len(times) == 2 && len(words) == 2 {
			e.arm(event{kind: matures, job: e.byLabelOfJudge(words[1])}, times[0])
		}
	case "RELEASED":
		label := e.labelIn(a.line)
		delete(c.held, label)
		e.disarm(label)
		if times := a.seconds(); len(times) == 1 {
			e.arm(event{kind: matures, job: label}, times[0])
		}
	case "BURIED":
		delete(c.held, e.labelIn(a.line))
		e.disarm(e.labelIn(a.line))
	case "KICKED":
		if a.verb == "kick-job" {
			e.disarmDelay(e.labelIn(a.line))
		}
	case "DELETED":
		e.learnDeleted(e.labelIn(a.line))
	case "PAUSED":
		if times := a.seconds(); len(times) == 1 {
			e.arm(event{kind: resumes}, times[0])
		}
	}
}

func (e *episode) learnWatching(c *conn, a *sentCommand) {
	if name, ok := strings.CutPrefix(a.line, "watch "); ok && !slices.Contains(c.watched, name) {
		c.watched = append(c.watched, name)
	}
	if name, ok := strings.CutPrefix(a.line, "ignore "); ok {
		c.watched = slices.DeleteFunc(c.watched, func(w string) bool { return w == name })
	}
}

func (e *episode) learnDeleted(label int) {
	for _, c := range e.conns {
		delete(c.held, label)
	}
	e.disarm(label)
	e.alive = slices.DeleteFunc(e.alive, func(l int) bool { return l == label })
}

// labelIn returns the label of the job that a command names.
func (e *episode) labelIn(line string) int {
	words := strings.Fields(line)
	if len(words) < 2 {
		return 0
	}
	n, _ := strconv.ParseUint(words[1], 10, 64)
	return e.byJudge[n]
}
