package main

import (
	"net/url"
	"strings"
)

const hidden = "xxxxx"

// redact returns s without the password of the URL that it is, or holds, or
// was meant to be: it is used on what was mistyped, too, so it does not count
// on s being well formed. A user name alone is taken for a password, which is
// what people mean by redis://secret@host.
func redact(s string) string {
	from, to := password(s)
	if from == to {
		return s
	}
	return s[:from] + hidden + s[to:]
}

// password returns where the password of a URL is in s: s[from:to].
func password(s string) (from, to int) {
	to = strings.LastIndexByte(s, '@')
	if to < 0 || isPath(s) {
		return 0, 0
	}
	if slashes := strings.Index(s[:to], "//"); slashes >= 0 {
		from = slashes + len("//")
	}
	if user, _, found := strings.Cut(s[from:to], ":"); found {
		from += len(user) + len(":")
	}
	return from, to
}

// isPath tells whether an @ in s is but a letter of a file's name.
func isPath(s string) bool {
	return !strings.Contains(s, "://") && (strings.HasPrefix(s, "embedded:") || strings.HasPrefix(s, unixPrefix+"/"))
}

// scrubbed is an error whose text holds no password, though those it wraps may.
type scrubbed struct {
	text string
	err  error
}

func (s *scrubbed) Error() string { return s.text }
func (s *scrubbed) Unwrap() error { return s.err }

// scrub hides the password of rawURL in what err says, as it stands in the URL
// and decoded. Errors of package url, for one, quote all of the URL.
func scrub(rawURL string, err error) error {
	from, to := password(rawURL)
	secret := rawURL[from:to]
	text := err.Error()
	if plain, e := url.PathUnescape(secret); e == nil && plain != secret {
		text = hide(text, plain)
	}
	return &scrubbed{hide(text, secret), err}
}

func hide(text, secret string) string {
	if secret == "" {
		return text
	}
	return strings.ReplaceAll(text, secret, hidden)
}
