package differ

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Coverage counts the replies to each command: by command, then by the
// first word of the reply. Lines that are not a command, or are bad before their verb
// is parsed, are "unknown"; the end of the connection after quit is "(end)".
type Coverage map[string]map[string]int

func (c Coverage) add(verb, head string) {
	word, rest, _ := strings.Cut(head, " ")
	if _, state, ok := strings.Cut(rest, " "); ok && word == "INSERTED" {
		word += "-" + state
	}
	if c[verb] == nil {
		c[verb] = make(map[string]int)
	}
	c[verb][word]++
}

func (c Coverage) merge(other Coverage) {
	for verb, words := range other {
		for word, n := range words {
			if c[verb] == nil {
				c[verb] = make(map[string]int)
			}
			c[verb][word] += n
		}
	}
}

// String is a table with a line for each command.
func (c Coverage) String() string {
	var b strings.Builder
	for _, verb := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%-22s", verb)
		for _, word := range slices.Sorted(maps.Keys(c[verb])) {
			fmt.Fprintf(&b, " %s %d", word, c[verb][word])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// essential is every reply that a server in good order can give, by command.
// It does not contain OUT_OF_MEMORY, INTERNAL_ERROR, and BURIED for put and
// release, which need a server without memory or disk.
var essential = map[string]string{
	"put":                  "INSERTED BAD_FORMAT JOB_TOO_BIG EXPECTED_CRLF DRAINING",
	"use":                  "USING BAD_FORMAT",
	"reserve":              "RESERVED DEADLINE_SOON TIMED_OUT BAD_FORMAT",
	"reserve-with-timeout": "RESERVED DEADLINE_SOON TIMED_OUT BAD_FORMAT",
	"reserve-job":          "RESERVED NOT_FOUND BAD_FORMAT",
	"delete":               "DELETED NOT_FOUND BAD_FORMAT",
	"release":              "RELEASED NOT_FOUND BAD_FORMAT",
	"bury":                 "BURIED NOT_FOUND BAD_FORMAT",
	"touch":                "TOUCHED NOT_FOUND BAD_FORMAT",
	"watch":                "WATCHING BAD_FORMAT",
	"ignore":               "WATCHING NOT_IGNORED BAD_FORMAT",
	"peek":                 "FOUND NOT_FOUND BAD_FORMAT",
	"peek-ready":           "FOUND NOT_FOUND BAD_FORMAT",
	"peek-delayed":         "FOUND NOT_FOUND BAD_FORMAT",
	"peek-buried":          "FOUND NOT_FOUND BAD_FORMAT",
	"kick":                 "KICKED BAD_FORMAT",
	"kick-job":             "KICKED NOT_FOUND BAD_FORMAT",
	"stats":                "OK BAD_FORMAT",
	"stats-job":            "OK NOT_FOUND BAD_FORMAT",
	"stats-tube":           "OK NOT_FOUND BAD_FORMAT",
	"list-tubes":           "OK BAD_FORMAT",
	"list-tubes-watched":   "OK BAD_FORMAT",
	"list-tube-used":       "USING BAD_FORMAT",
	"pause-tube":           "PAUSED NOT_FOUND BAD_FORMAT",
	"quit":                 "(end)",
	unknown:                "UNKNOWN_COMMAND BAD_FORMAT",
}

// Missing returns the essential replies that were not seen.
func (c Coverage) Missing() (missing []string) {
	for _, verb := range slices.Sorted(maps.Keys(essential)) {
		for _, word := range strings.Fields(essential[verb]) {
			if c[verb][word] == 0 {
				missing = append(missing, verb+" "+word)
			}
		}
	}
	return missing
}
