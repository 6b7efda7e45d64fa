package differ

import (
	"slices"
	"strconv"
	"strings"
)

// This file excludes scripts with random results, as rules.go does, for
// extensions.

// beyondState is what the rules need to know about sent extensions.
type beyondState struct {
	leased  []int    // labels of jobs, in the order of their last leases
	cursors []cursor // of listed pages
	current int      // how many of the cursors are out of date

	// Which tags were sent: retries after some seconds, keys that stay taken for some
	// seconds, retries after any time, limits of deliveries, and dead-letter
	// tubes.
	shortRetry, shortKeyTTL, retry, dead bool
}

// cursor is where the next page of a list begins.
type cursor struct {
	pair
	list string // "tube state"
}

// noteSent records what a line means for later.
func (e *episode) noteSent(a *sentCommand) {
	if !e.beyond {
		return
	}
	if !a.asks() {
		e.current = len(e.cursors)
	}
	switch a.verb {
	case "drain":
		e.draining = true
	case "undrain":
		e.draining = false
	}
	if a.tags() == "" {
		return
	}
	retry, keyTTL := a.later()
	isShort := func(n uint64) bool { return 0 < n && n <= soonest }
	e.shortRetry = e.shortRetry || slices.ContainsFunc(retry, isShort)
	e.shortKeyTTL = e.shortKeyTTL || slices.ContainsFunc(keyTTL, isShort)
	e.retry = e.retry || len(retry) > 0
	_, dead := a.tag("dead")
	e.dead = e.dead || dead
}

// cursorsIn returns the numbers of the cursors that a line names.
func cursorsIn(line string) (all []int) {
	for _, m := range refs.FindAllStringSubmatch(line, -1) {
		if n, err := strconv.Atoi(strings.TrimPrefix(m[1], "c")); err == nil && m[1][0] == 'c' {
			all = append(all, n)
		}
	}
	return all
}

// asks reports whether a command changes nothing.
func (a *sentCommand) asks() bool {
	switch a.verb {
	case "peek", "peek-ready", "peek-delayed", "peek-buried", "stats-job", "stats-tube", "stats", "list-jobs", "find", "list-tubes":
		return true
	}
	return a.isNeutral()
}

// tagsBetween reports whether a time in tags is between, which scripts must not use.
func (e *episode) tagsBetween(a *sentCommand) bool {
	retry, keyTTL := a.later()
	return slices.ContainsFunc(append(retry, keyTTL...), func(n uint64) bool {
		return n > 0 && n < latest && (!e.timed || n > soonest)
	})
}

// armsByRules reports whether a command can cause an event because of tags.
func (e *episode) armsByRules(a *sentCommand) bool {
	return e.shortRetry && a.mayFail() || e.shortKeyTTL && a.mayRemove()
}

// admitBeyond excludes steps with random results.
func (e *episode) admitBeyond(_ int, _ *conn, all []*sentCommand, s step) string {
	if !e.beyond {
		return ""
	}
	dead, retry, fails, behind := e.dead, e.retry, 0, false
	for _, a := range all {
		retried, _ := a.later()
		_, buries := a.tag("dead")
		dead, retry = dead || buries, retry || len(retried) > 0
		switch {
		case fails > 0 && dead && !a.isNeutral():
			return "dead-letters-later"
		case behind && (a.verb == "drain" || a.verb == "undrain" || a.blocks && !a.counted):
			return "own-questions"
		case e.timed && a.verb == "reserve-batch" && group(batchLine, a.line, 1) != "1":
			return "two TTRs may end at the same time"
		case e.timed && a.tags() != "" && len(all) > 1:
			return "what a tag sets off is not expected within a packet"
		case e.lag > 0 && (a.verb == "drain" || a.verb == "undrain"):
			return "each instance is drained for itself"
		case reservedOne.MatchString(a.line):
			return "reserved-in-any-order"
		}
		behind = behind || a.blocks
		if a.mayFail() {
			fails++
		}
		if fails > 1 && retry {
			return "delay-due-order"
		}
	}
	return e.admitCursors(s)
}

// admitCursors excludes cursors of pages that are out of date.
func (e *episode) admitCursors(s step) string {
	changed := false
	for _, cmd := range s.commands {
		for _, n := range cursorsIn(cmd.line) {
			if changed || n < e.current || n >= len(e.cursors) {
				return "a list that has changed"
			}
		}
		a := &sentCommand{line: cmd.line, verb: verbOf(cmd.line, verbsBeyond)}
		changed = changed || !a.asks()
	}
	return ""
}
