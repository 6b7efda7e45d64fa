package differ

import (
	"regexp"
	"strconv"
	"strings"
)

// This file parses lines with extensions, which beanstalkd does not have, see [Config.Beyond].

// verbsBeyond are all verbs of a server with extensions, in the order in which a line is
// matched against them.
var verbsBeyond = []string{
	"put ", "peek ", "peek-ready", "peek-delayed", "peek-buried", "reserve-with-timeout ", "reserve-job ", "reserve-batch ",
	"reserve-lease ", "reserve", "delete ", "delete-batch ", "delete-lease ", "delete-key ", "release ", "release-lease ",
	"bury ", "bury-lease ", "kick ", "kick-job ", "touch ", "touch-lease ", "stats-job ", "stats-tube ", "stats", "use ",
	"watch ", "ignore ", "list-tubes-watched", "list-tube-used", "list-tubes", "quit", "pause-tube", "drain", "undrain",
	"capabilities", "reschedule ", "set-priority ", "set-policy ", "get-policy ", "list-policies", "list-jobs ", "find ",
	"flush-tube ", "move-jobs ",
}

// wholeWords are the verbs that must not be followed by anything.
var wholeWords = map[string]bool{"drain": true, "undrain": true, "capabilities": true, "list-policies": true}

// longLines has the largest length of a line, without its CRLF, if it is not lineMax.
var longLines = map[string]int{
	"delete-batch": 16<<10 - 2, "set-policy": 1022, "delete-key": 448, "list-jobs": 448, "find": 448, "move-jobs": 448,
}

// tagLineMax is the longest line of a put that has only tags after its length.
const tagLineMax = 1022

var (
	putTags      = regexp.MustCompile(`(?s)^(?: +(?:delay|at|key|on-duplicate|key-ttl|retry|max|dead):[^ ]*)+$`)
	policyLine   = regexp.MustCompile(`(?s)^set-policy +[^ ]+((?: +[^ ]+:[^ ]*)+)$`)
	duration     = regexp.MustCompile(`^([0-9]+)(ms|s|m|h|d|)$`)
	leasedAgain  = regexp.MustCompile(`^release-lease +[0-9]+ +[!-~]{1,32} +[0-9]+ +([0-9]+)$`)
	rescheduled  = regexp.MustCompile(`^reschedule +[0-9]+ +([0-9]+(?:ms|s|m|h|d|))$`)
	batchLine    = regexp.MustCompile(`^reserve-batch +([0-9]+)(?: +([0-9]+))?$`)
	leaseLine    = regexp.MustCompile(`^reserve-lease +([0-9]+)$`)
	moveLine     = regexp.MustCompile(`^move-jobs +[^ ]+ +[^ ]+ +[^ ]+ +([0-9]+)$`)
	reservedList = regexp.MustCompile(`^list-jobs +[^ ]+ +reserved`)
	reservedOne  = regexp.MustCompile(`^list-jobs +[^ ]+ +reserved +[0-9]`)
)

// verbOf returns the verb of a line.
func (f *framer) verbOf(line string) string {
	if !f.beyond {
		return verbOf(line, verbs)
	}
	v := verbOf(line, verbsBeyond)
	if wholeWords[v] && line != v {
		return unknown
	}
	return v
}

// longest returns the largest length of a line, without its CRLF.
func (f *framer) longest(a *sentCommand) int {
	switch n := longLines[a.verb]; {
	case !f.beyond:
		return lineMax
	case n > 0:
		return n
	case a.verb == "put" && a.tags() != "":
		return tagLineMax
	}
	return lineMax
}

// tags returns the text after the length of a put, or after the name in a set-policy, if that
// consists of tags; else "".
func (a *sentCommand) tags() string {
	switch a.verb {
	case "put":
		if m := putLine.FindStringSubmatch(a.line); m != nil && putTags.MatchString(m[5]) {
			return m[5]
		}
	case "set-policy":
		if m := policyLine.FindStringSubmatch(a.line); m != nil {
			return m[1]
		}
	}
	return ""
}

// tag returns the value of a tag of a line.
func (a *sentCommand) tag(name string) (value string, ok bool) {
	for _, word := range strings.Fields(a.tags()) {
		if value, ok := strings.CutPrefix(word, name+":"); ok {
			return value, true
		}
	}
	return "", false
}

// between is a time that is too long to wait for and too short to ignore.
const between = latest - 1

// inSeconds is a duration in whole seconds; between if it is none.
func inSeconds(word string) (n uint64, ok bool) {
	m := duration.FindStringSubmatch(word)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(m[1], 10, 40)
	if err != nil {
		return 0, false
	}
	return wholeSeconds(n * map[string]uint64{"ms": 1, "s": 1000, "": 1000, "m": 60_000, "h": 3600_000, "d": 86400_000}[m[2]]), true
}

func wholeSeconds(ms uint64) uint64 {
	if ms%1000 != 0 && ms < latest*1000 {
		return between
	}
	return ms / 1000
}

// dueIn returns the seconds until a put with tags is due, if the tags have that.
func (a *sentCommand) dueIn() (n uint64, ok bool) {
	if value, ok := a.tag("delay"); ok {
		return inSeconds(value)
	}
	value, ok := a.tag("at")
	at, err := strconv.ParseUint(value, 10, 63)
	if !ok || err != nil {
		return 0, false
	}
	return wholeSeconds(max(at, a.base) - a.base), true
}

// later returns the times in tags that count from a later event of a job: those of
// retry and of key-ttl.
func (a *sentCommand) later() (retry, keyTTL []uint64) {
	collect := func(name string) (all []uint64) {
		value, _ := a.tag(name)
		for _, word := range strings.Split(value, ",") {
			if n, ok := inSeconds(word); ok {
				all = append(all, n)
			}
		}
		return all
	}
	return collect("retry"), collect("key-ttl")
}

// secondsBeyond returns the times of a line with extensions.
func (a *sentCommand) secondsBeyond() []uint64 {
	var word string
	switch a.verb {
	case "release-lease":
		word = group(leasedAgain, a.line, 1)
	case "reserve-lease":
		word = group(leaseLine, a.line, 1)
	case "reserve-batch":
		word = group(batchLine, a.line, 2)
	case "reschedule":
		word = group(rescheduled, a.line, 1)
	}
	if n, ok := inSeconds(word); ok {
		return []uint64{n}
	}
	return nil
}

func group(re *regexp.Regexp, line string, n int) string {
	if m := re.FindStringSubmatch(line); m != nil {
		return m[n]
	}
	return ""
}

// mayWait reports whether a line is an extended reserve that waits if there is no job.
func (a *sentCommand) mayWait() bool {
	if a.verb == "reserve-batch" {
		if n, err := strconv.ParseUint(group(batchLine, a.line, 1), 10, 32); err != nil || n < 1 || n > 1000 {
			return false
		}
	}
	if a.verb != "reserve-batch" && a.verb != "reserve-lease" {
		return false
	}
	times := a.secondsBeyond()
	return len(times) == 1 && 0 < times[0] && times[0] <= 1<<31-1
}

// mayFail reports whether a command may be a failure of a job.
func (a *sentCommand) mayFail() bool {
	return a.verb == "release" || a.verb == "release-lease" || a.verb == "quit"
}

// mayRemove reports whether a job may be gone by a command.
func (a *sentCommand) mayRemove() bool {
	switch a.verb {
	case "delete", "delete-lease", "delete-batch", "delete-key", "flush-tube", "move-jobs":
		return true
	}
	_, key := a.tag("key")
	return a.mayFail() || key
}

// leaveOne reports whether a command for one or several jobs concerns at most one.
func (a *sentCommand) leaveOne() bool {
	switch a.verb {
	case "kick":
		return a.line == "kick 1" || a.line == "kick 0"
	case "move-jobs":
		n := group(moveLine, a.line, 1)
		return n == "" || n == "1"
	}
	return true
}
