package protocol

import "strings"

// Verb is a command word. The constants stand in the order in which beanstalkd
// tries the words against a line; the first prefix that fits wins.
type Verb uint8

const (
	Unknown Verb = iota
	Put
	Peek
	PeekReady
	PeekDelayed
	PeekBuried
	ReserveWithTimeout
	ReserveJob
	Reserve
	Delete
	Release
	Bury
	Kick
	KickJob
	Touch
	StatsJob
	StatsTube
	Stats
	Use
	Watch
	Ignore
	ListTubesWatched
	ListTubeUsed
	ListTubes
	Quit
	PauseTube

	// NumVerbs is the size of an array indexed by Verb, Unknown included.
	NumVerbs
)

// Spec is one row of the verb table.
type Spec struct {
	// Prefix is what a line must begin with. Words that take an argument carry
	// the one space that must follow, except pause-tube, which needs none.
	Prefix string
	// Exact says that nothing may follow the prefix; if something does, the
	// line is BAD_FORMAT, not UNKNOWN_COMMAND, and no further word is tried.
	Exact bool
	// Counter is the key of the stats page that counts the verb, "" if none.
	Counter string

	// parse reads what follows the prefix. False means that the arguments do
	// not parse: BAD_FORMAT, and the command is not counted. True with a Fault
	// in the Command means counted all the same. Nil: what follows is ignored.
	parse func(c *Command, args []byte) bool
}

var table = [NumVerbs]Spec{
	Put:                {"put ", false, "cmd-put", parsePut},
	Peek:               {"peek ", false, "cmd-peek", parseID},
	PeekReady:          {"peek-ready", true, "cmd-peek-ready", nil},
	PeekDelayed:        {"peek-delayed", true, "cmd-peek-delayed", nil},
	PeekBuried:         {"peek-buried", true, "cmd-peek-buried", nil},
	ReserveWithTimeout: {"reserve-with-timeout ", false, "cmd-reserve-with-timeout", parseTimeout},
	ReserveJob:         {"reserve-job ", false, "", parseID},
	Reserve:            {"reserve", true, "cmd-reserve", nil},
	Delete:             {"delete ", false, "cmd-delete", parseID},
	Release:            {"release ", false, "cmd-release", parseRelease},
	Bury:               {"bury ", false, "cmd-bury", parseBury},
	Kick:               {"kick ", false, "cmd-kick", parseKick},
	KickJob:            {"kick-job ", false, "", parseID},
	Touch:              {"touch ", false, "cmd-touch", parseID},
	StatsJob:           {"stats-job ", false, "cmd-stats-job", parseID},
	StatsTube:          {"stats-tube ", false, "cmd-stats-tube", parseName},
	Stats:              {"stats", true, "cmd-stats", nil},
	Use:                {"use ", false, "cmd-use", parseName},
	Watch:              {"watch ", false, "cmd-watch", parseName},
	Ignore:             {"ignore ", false, "cmd-ignore", parseName},
	ListTubesWatched:   {"list-tubes-watched", true, "cmd-list-tubes-watched", nil},
	ListTubeUsed:       {"list-tube-used", true, "cmd-list-tube-used", nil},
	ListTubes:          {"list-tubes", true, "cmd-list-tubes", nil},
	Quit:               {"quit", false, "", nil},
	PauseTube:          {"pause-tube", false, "cmd-pause-tube", parsePause},
}

// statVerbs is in the order of the stats page, which is neither the order of
// the table nor alphabetical, and which scrapers that count lines rely on.
var statVerbs = []Verb{
	Put, Peek, PeekReady, PeekDelayed, PeekBuried, Reserve, ReserveWithTimeout,
	Delete, Release, Use, Watch, Ignore, Bury, Kick, Touch, Stats, StatsJob,
	StatsTube, ListTubes, ListTubeUsed, ListTubesWatched, PauseTube,
}

// byFirst holds, for every first byte of a line, the verbs worth trying, in
// the order of the table.
var byFirst = func() (index [256][]Verb) {
	for v := Unknown + 1; v < NumVerbs; v++ {
		b := table[v].Prefix[0]
		index[b] = append(index[b], v)
	}
	return index
}()

// lookup finds the verb of a line (without its CRLF), Unknown if no prefix fits.
func lookup(line []byte) Verb {
	if len(line) == 0 {
		return Unknown
	}
	for _, v := range byFirst[line[0]] {
		if p := table[v].Prefix; len(line) >= len(p) && string(line[:len(p)]) == p {
			return v
		}
	}
	return Unknown
}

// String is the word on the wire, without the space that follows it
// ("reserve-with-timeout"), or "unknown". It does not allocate.
func (v Verb) String() string {
	if v == Unknown || v >= NumVerbs {
		return "unknown"
	}
	return strings.TrimSuffix(table[v].Prefix, " ")
}

// Counter is the key under which the stats page counts the verb ("cmd-put"),
// "" for Unknown, reserve-job, kick-job and quit, which are not counted.
func (v Verb) Counter() string { return v.Spec().Counter }

// Spec is the verb's row of the table, the zero Spec for Unknown.
func (v Verb) Spec() Spec {
	if v >= NumVerbs {
		return Spec{}
	}
	return table[v]
}

// StatVerbs are the verbs with a counter, in the order of the stats page. The
// slice is shared and must not be changed.
func StatVerbs() []Verb { return statVerbs[:len(statVerbs):len(statVerbs)] }
