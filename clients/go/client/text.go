package client

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// quote returns a text as the value of a tag. It has no control characters but tabs and newlines.
func quote(s string) string { return `"` + quoter.Replace(s) + `"` }

var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`)

// clean returns a text without what a quoted value cannot have: what is not UTF-8, and other control characters.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// maxReason is the longest reason of a failure in bytes.
const maxReason = 512

// maxProgress is the longest progress of a job in bytes.
const maxProgress = 256

// beginning returns a text that a quoted value can have: the beginning of s, if it is longer than limit bytes.
func beginning(s string, limit int) string {
	s = clean(s)
	if len(s) <= limit {
		return s
	}
	end := limit
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
