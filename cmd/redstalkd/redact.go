package main

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

const hidden = "xxxxx"

// shortestSecret is how long a password is at least to be looked for in other texts:
// shorter ones would be found in any.
const shortestSecret = 4

// redact returns s without the user and password of the URL that it is, or holds, or
// was meant to be: it is used on what was mistyped, too, so it does not count on s
// being well formed.
func redact(s string) string {
	from, to := userInfo(s)
	return s[:from] + hide(s[from:to]) + s[to:]
}

// hide returns what is shown of a secret, if there is one.
func hide(secret string) string {
	if secret == "" {
		return ""
	}
	return hidden
}

// userInfo returns where user and password of a URL are in s: s[from:to]. If there
// is no @ behind which a host comes, that is all that is no host.
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

// onlyHosts matches what follows the slashes of a URL if none of it can be a password
// in the place of a host: hosts with ports, a name and a number, and parameters.
var onlyHosts = regexp.MustCompile(strings.ReplaceAll(
	`^HOST(,HOST)*(/[\w.-]*){0,2}(\?(\w+=[^&#]*&?)*)?$`, "HOST", `(\[[0-9a-fA-F:.%]*\]|[^][:,/?#]*)(:\d{0,5})?`))

// isPath tells whether an @ in s is but a letter of a file's name.
func isPath(s string) bool {
	if socket, ok := strings.CutPrefix(s, "unix:///"); ok {
		return !strings.Contains(socket, "@/")
	}
	return !strings.Contains(s, "://") && (strings.HasPrefix(s, "embedded:") || strings.HasPrefix(s, unixPrefix+"/"))
}

// scrubbed is an error whose text holds no user and password, though those it wraps may.
type redactedError struct {
	text string
	err  error
}

func (s *redactedError) Error() string { return s.text }
func (s *redactedError) Unwrap() error { return s.err }

// scrub hides user and password of rawURL in what err says, together and the password
// alone, as they stand in the URL, in quotes, and decoded.
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

// quoteless is how s stands between quotes.
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
