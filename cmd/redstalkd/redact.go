package main

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

const hidden = "xxxxx"

// shortestSecret is the shortest password that is replaced in other texts: shorter
// ones would match by chance.
const shortestSecret = 4

// redact returns s with user and password of a URL replaced. s is a URL or contains one, and
// can be malformed: redact is also used on mistyped values.
func redact(s string) string {
	from, to := userInfo(s)
	return s[:from] + hide(s[from:to]) + s[to:]
}

// hide returns what is shown in place of a secret; "" for no secret.
func hide(secret string) string {
	if secret == "" {
		return ""
	}
	return hidden
}

// userInfo returns where user and password of a URL are in s: s[from:to]. Without
// an @ it is everything, unless all of it can be hosts.
func userInfo(s string) (from, to int) {
	if isPath(s) {
		return 0, 0
	}
	if slashes := strings.Index(s, "//"); slashes >= 0 {
		from = slashes + len("//")
	} else if scheme, _, found := strings.Cut(s, ":"); redisSchemes[scheme] && found {
		from = len(scheme) + len(":")
	}
	if at := strings.LastIndexByte(s[from:], '@'); at >= 0 {
		return from, from + at
	}
	if from == 0 || onlyHosts.MatchString(s[from:]) {
		return 0, 0
	}
	return from, len(s)
}

// onlyHosts matches the part after the slashes of a URL if none of it can be a password
// instead of a host: hosts with ports, a name and a number, and parameters.
var onlyHosts = regexp.MustCompile(strings.ReplaceAll(
	`^HOST(,HOST)*(/[\w.-]*){0,2}(\?(\w+=[^&#]*&?)*)?$`, "HOST", `(\[[0-9a-fA-F:.%]*\]|[^][:,/?#]*)(:\d{0,5})?`))

// isPath reports whether s is a path, in which an @ is part of a file name.
func isPath(s string) bool {
	if socket, ok := strings.CutPrefix(s, "unix:///"); ok {
		return !strings.Contains(socket, "@/")
	}
	return !strings.Contains(s, "://") && (strings.HasPrefix(s, "embedded:") || strings.HasPrefix(s, unixPrefix+"/"))
}

// redactedError is an error whose text has no user and password, while those that it wraps may have.
type redactedError struct {
	text string
	err  error
}

func (s *redactedError) Error() string { return s.text }
func (s *redactedError) Unwrap() error { return s.err }

// redactError replaces user and password of rawURL in the text of err: both together and the
// password alone, in the form of the URL, in Go quotes, and unescaped.
func redactError(rawURL string, err error) error {
	from, to := userInfo(rawURL)
	text, both := err.Error(), rawURL[from:to]
	_, password, found := strings.Cut(both, ":")
	if !found {
		password = both
	}
	if both != "" {
		text = strings.ReplaceAll(text, rawURL, redact(rawURL))
		text = strings.ReplaceAll(text, goQuoted(rawURL), redact(rawURL))
	}
	for _, secret := range []string{both, goQuoted(both), unescaped(both), password, goQuoted(password), unescaped(password)} {
		if len(secret) >= shortestSecret {
			text = strings.ReplaceAll(text, secret, hidden)
		}
	}
	return &redactedError{text, err}
}

// goQuoted is s as %q writes it, without the quotes.
func goQuoted(s string) string {
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

func unescaped(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
