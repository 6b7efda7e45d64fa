package protocol

import (
	"strconv"
	"strings"
	"time"
)

// FlowMap builds a map of YAML that is written in one line. The zero FlowMap is empty and
// ready. Keys and bare values are not escaped and must be plain words.
type FlowMap struct{ b []byte }

// key begins an entry.
func (m *FlowMap) key(key string) {
	if len(m.b) > 0 {
		m.b = append(m.b, ", "...)
	}
	m.b = append(append(m.b, key...), ": "...)
}

// Uint adds a whole number.
func (m *FlowMap) Uint(key string, v uint64) {
	m.key(key)
	m.b = strconv.AppendUint(m.b, v, 10)
}

// Int adds a whole number that may be negative.
func (m *FlowMap) Int(key string, v int64) {
	m.key(key)
	m.b = strconv.AppendInt(m.b, v, 10)
}

// Bare adds a word.
func (m *FlowMap) Bare(key, v string) {
	m.key(key)
	m.b = append(m.b, v...)
}

// Quoted adds a string in double quotes; a double quote or backslash in it is escaped.
func (m *FlowMap) Quoted(key, v string) {
	m.key(key)
	m.b = appendQuoted(m.b, v)
}

// Durations writes durations as a tag has them: with commas, each as a whole number of its
// largest unit.
func Durations(all []time.Duration) string {
	words := make([]string, len(all))
	for i, d := range all {
		words[i] = durationWord(d)
	}
	return strings.Join(words, ",")
}

// durationWord writes a duration of whole milliseconds.
func durationWord(d time.Duration) string {
	best := "ms"
	for _, u := range units[:len(units)-1] { // the last one has no letters
		if d%u.is == 0 && (d != 0 || u.letters == "s") {
			best = u.letters
		}
	}
	for _, u := range units {
		if u.letters == best {
			return strconv.FormatInt(int64(d/u.is), 10) + best
		}
	}
	return ""
}

// ParseDuration reads a duration as a tag has it: a whole number, with a unit or else of
// seconds, at most [MaxDuration].
func ParseDuration(word string) (d time.Duration, ok bool) {
	if word == "" || word[0] == ' ' {
		return 0, false
	}
	ok = wholeDuration(&d, []byte(word))
	return d, ok
}
