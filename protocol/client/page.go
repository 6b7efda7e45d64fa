package client

import "strings"

// A Page is what a server sends after OK: a list or a dictionary in YAML, with
// the line "---" first and "\n" at the end of each line.
type Page string

// Value returns the value of a key of a dictionary as it is written, and whether
// the key exists.
func (p Page) Value(key string) (value string, ok bool) {
	_, rest, ok := strings.Cut(string(p), "\n"+key+": ")
	if !ok {
		return "", false
	}
	value, _, _ = strings.Cut(rest, "\n")
	return value, true
}
