package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// event is what go test -json says.
type event struct {
	Action, Package, Test, Output string
}

// reader looks for something that was counted in a line of the output of a test, without the name
// of the file and the number of the line before it. It returns whether it has found it.
type reader func(n *notes, test, line string) bool

// notes are what was found so far in the output of a part.
type notes struct {
	read    []reader
	counts  map[string]int
	kinds   map[string]int    // how often each kind of what the part is about was there
	said    []string          // figures for people
	now     string            // what later lines are about, where that was said once
	begun   map[string]string // of each test, the line it is in the middle of
	outputs map[string][]string
	failed  []string // tests, and the empty name for what belongs to none
	skipped []string
	passed  map[string]bool
}

func newNotes(p *part) *notes {
	return &notes{
		read: p.read, counts: make(map[string]int), kinds: make(map[string]int),
		begun: make(map[string]string), outputs: make(map[string][]string), passed: make(map[string]bool),
	}
}

// line notes a line, and returns the text that is meant for people, if there is one.
func (n *notes) line(line string) string {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
		e = event{Action: "output", Output: line} // of no test
	}
	if e.Action != "output" {
		n.endLine(e.Test)
	}
	switch e.Action {
	case "output":
		n.part(e.Test, e.Output)
		return e.Output
	case "build-output":
		n.output("", strings.TrimRight(e.Output, "\n"))
		return e.Output
	case "pass":
		n.passed[e.Test] = e.Test != ""
	case "fail":
		n.failed = append(n.failed, e.Test)
	case "skip":
		if e.Test != "" {
			n.skipped = append(n.skipped, e.Test)
		}
	}
	return ""
}

var (
	// frame is what is around what tests say, and what servers had to say.
	frame  = regexp.MustCompile(`^\s*(=== |--- (PASS|FAIL|SKIP)|PASS$|FAIL\b|ok\s|exit status|\?\s|instance \d+: )`)
	source = regexp.MustCompile(`^\s*\w+\.go:\d+: `)
)

// keptLines is how many lines of a test are kept in case that it fails.
const keptLines = 400

// part notes what a test says: go test hands lines of more than 1 KiB on in parts, and only the last
// one ends with a line feed.
func (n *notes) part(test, output string) {
	said := n.begun[test] + output
	line, whole := strings.CutSuffix(said, "\n")
	if !whole {
		n.begun[test] = said
		return
	}
	delete(n.begun, test)
	n.output(test, line)
}

// endLine notes the line that a test has begun, if it has.
func (n *notes) endLine(test string) {
	if n.begun[test] != "" {
		n.part(test, "\n")
	}
}

func (n *notes) output(test, line string) {
	text := strings.TrimPrefix(line, source.FindString(line))
	for _, read := range n.read {
		if read(n, test, text) {
			return
		}
	}
	if kept := n.outputs[test]; text != "" && !frame.MatchString(text) && len(kept) < keptLines {
		n.outputs[test] = append(kept, line)
	}
}

// leaves are those of some tests that have no others below them.
func leaves(tests []string) []string {
	slices.Sort(tests)
	tests = slices.Compact(tests)
	return slices.DeleteFunc(slices.Clone(tests), func(name string) bool {
		return slices.ContainsFunc(tests, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// foundLines and foundLength bound what a record keeps of what went wrong.
const (
	foundLines  = 30
	foundLength = 300
)

// fill writes what was found into a record. err is that of the last command; stopped tells that the
// time is over.
func (n *notes) fill(r *record, err error, stopped bool) {
	passed := slices.Collect(maps.Keys(n.passed))
	if tests := len(leaves(slices.DeleteFunc(passed, func(name string) bool { return !n.passed[name] }))); tests > 0 {
		n.counts["tests"] = tests
	}
	r.Counts, r.Kinds, r.Said = n.counts, n.kinds, n.said
	switch {
	case stopped && err != nil:
		r.Result = stoppedRun
	case err != nil:
		r.Result = failedRun
		r.Found = n.found(append(leaves(slices.DeleteFunc(n.failed, func(test string) bool { return test == "" })), ""))
		if len(r.Found) == 0 {
			r.Found = []string{err.Error()}
		}
	case len(n.skipped) > 0:
		r.Result = voidRun
		r.Found = n.found(leaves(n.skipped))
	case len(n.counts) == 0:
		r.Result = voidRun
		r.Found = []string{"nothing was counted"}
	default:
		r.Result = passedRun
	}
}

// found returns what some tests have said, those with the most to say cut short.
func (n *notes) found(tests []string) (lines []string) {
	for _, test := range tests {
		its := n.outputs[test]
		if test != "" {
			lines = append(lines, test+":")
		}
		for _, line := range its[:min(len(its), foundLines)] {
			line = strings.TrimSpace(line)
			lines = append(lines, line[:min(len(line), foundLength)])
		}
	}
	return lines[:min(len(lines), 3*foundLines)]
}

// adds returns a reader of lines that match a pattern; what its groups match is added to the counts
// of these names.
func adds(pattern string, names ...string) reader {
	p := regexp.MustCompile(pattern)
	return func(n *notes, _, line string) bool {
		m := p.FindStringSubmatch(line)
		if m == nil {
			return false
		}
		for i, name := range names {
			n.counts[name] += number(m[i+1])
		}
		return true
	}
}

// number reads digits; what is none is 0.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// The readers of what tests print in one line.
var (
	readCompared = adds(`^(\d+) commands compared without time and (\d+) with, in (\d+) and (\d+) scripts; of the latter (\d+) were cut short by a slow machine, and (\d+) failed once`,
		"commands", "commands", "scripts", "scripts", "scripts cut short", "scripts failed once and not again")
	readDiskFaults = adds(`^(\d+) faults for (\d+) operations$`, "faults", "operations")
	readMoved      = adds(`^(\d+) jobs: (\d+) were deleted, of (\d+) it is not known$`, "jobs moved", "jobs deleted", "deletes unknown to clients")
	readCuts       = adds(`^power cut after (\d+) steps and (\d+) times within one$`, "power cuts", "power cuts")
	readLogCuts    = adds(`^(\d+) power cuts$`, "power cuts")
)

var killsBegin = regexp.MustCompile(`^(\d+) rounds: `)

// readKills reads the end of the rounds in which a server was killed; the last one ends it as it
// wants to be ended. The books follow in the same line.
func readKills(n *notes, test, line string) bool {
	m := killsBegin.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	n.counts["kills"] += number(m[1]) - 1
	return readLedger(n, test, strings.TrimPrefix(line, m[0]))
}

var books = regexp.MustCompile(`^puts \d+ \(acknowledged (\d+), refused \d+, unknown (\d+)\), deletes \d+ \(acknowledged (\d+), unknown (\d+)\), .*; (lost \d+, .*)$`)

// readLedger reads the books of a ledger. All that comes behind "lost" is what must not be, up to
// what was handed out again for a reason.
func readLedger(n *notes, _, line string) bool {
	m := books.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	n.counts["puts acknowledged"] += number(m[1])
	n.counts["puts unknown to clients"] += number(m[2])
	n.counts["deletes acknowledged"] += number(m[3])
	n.counts["deletes unknown to clients"] += number(m[4])
	wrong, _, _ := strings.Cut(m[5], ", handed out again (")
	for one := range strings.SplitSeq(wrong, ", ") {
		if at := strings.LastIndexByte(one, ' '); at > 0 {
			n.counts[one[:at]] += number(one[at+1:])
		}
	}
	return true
}

var (
	chaosKinds = regexp.MustCompile(`^\d+ kinds of faults: (.*)$`)
	chaosRound = regexp.MustCompile(`^round \d+, [\d:.]+: (.*): longest silence (.*)$`)
	internal   = regexp.MustCompile(`(\d+) INTERNAL_ERROR`)
)

// readChaosKinds reads which faults there may be.
func readChaosKinds(n *notes, _, line string) bool {
	m := chaosKinds.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	for kind := range strings.SplitSeq(m[1], " | ") {
		n.kinds[kind] += 0
	}
	return true
}

// readChaosRound reads what happened in a round.
func readChaosRound(n *notes, _, line string) bool {
	m := chaosRound.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	kinds := strings.Split(m[1], " + ")
	for _, kind := range kinds {
		n.kinds[kind]++
	}
	n.counts["rounds"]++
	if len(kinds) > 1 {
		n.counts["rounds with two faults"]++
	}
	if m := internal.FindStringSubmatch(m[2]); m != nil {
		n.counts["INTERNAL_ERROR"] += number(m[1])
	}
	return true
}

// readClients notes which client was played on which server.
func readClients(n *notes, test, line string) bool {
	name, is := strings.CutPrefix(test, "TestClients/")
	if server, client, both := strings.Cut(name, "/"); is && both {
		switch first, _, _ := strings.Cut(strings.TrimSpace(line), ":"); first {
		case "--- PASS":
			n.kinds[client+" on "+server]++
			n.counts["clients on servers"]++
		case "=== RUN   " + test:
			n.kinds[client+" on "+server] += 0
		}
	}
	return false
}

var (
	fuzzBegins = regexp.MustCompile(`-fuzz '\^(\w+)\$'`)
	fuzzGoesOn = regexp.MustCompile(`^fuzz: elapsed: .*, execs: (\d+) `)
)

// readFuzz notes how often each fuzzer has run its target. It counts on, line by line.
func readFuzz(n *notes, _, line string) bool {
	if m := fuzzBegins.FindStringSubmatch(line); m != nil {
		n.now = m[1]
		n.kinds[n.now] = 0
		return true
	}
	m := fuzzGoesOn.FindStringSubmatch(line)
	if m == nil || n.now == "" {
		return strings.HasPrefix(line, "fuzz: elapsed: ")
	}
	n.counts["executions"] += number(m[1]) - n.kinds[n.now]
	n.kinds[n.now] = number(m[1])
	return true
}

var attackMade = regexp.MustCompile(`^([a-z0-9-]+): .* \(asked: .*\) \[.*\]$`)

// readAttack notes the attacks that were made, and what was measured.
func readAttack(n *notes, test, line string) bool {
	if names, is := strings.CutPrefix(line, "not asked for: "); test == "" && is {
		for name := range strings.SplitSeq(names, ", ") {
			n.kinds[name] += 0
		}
		return true
	}
	if m := attackMade.FindStringSubmatch(line); m != nil {
		n.kinds[m[1]]++
		n.counts["attacks"]++
	} else if len(n.said) == 0 || !strings.HasPrefix(line, " ") {
		return false
	}
	n.said = append(n.said, line)
	return true
}

var imported = regexp.MustCompile(`^(\d+) jobs into (\S+) in (\S+)$`)

// readImported notes how long an import has taken.
func readImported(n *notes, _, line string) bool {
	m := imported.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	n.counts["jobs imported"] += number(m[1])
	n.kinds["into "+m[2]] = number(m[1])
	n.said = append(n.said, line)
	return true
}
