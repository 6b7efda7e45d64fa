package redact

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
)

// TestURL: user and password are replaced, and nothing else.
func TestURL(t *testing.T) {
	for in, want := range map[string]string{
		"memory:":                      "memory:",
		"embedded:/a@b":                "embedded:/a@b",
		"redis://h:1/2":                "redis://h:1/2",
		"redis://u:secret@h:1/2":       "redis://xxxxx@h:1/2",
		"redis://:secret@h":            "redis://xxxxx@h",
		"redis://secret@h":             "redis://xxxxx@h",
		"redis://u:sec@ret/?#:x@h:1/2": "redis://xxxxx@h:1/2",
		"unix://u:secret@/run/r.sock":  "unix://xxxxx@/run/r.sock",
		"unix:/a@b":                    "unix:/a@b",
		"redis//u:secret@h":            "redis//xxxxx@h",
		"redis:u:secret@h":             "redis:xxxxx@h",
		"u:secret@h":                   "xxxxx@h",
		"embedded:redis://u:secret@h":  "embedded:redis://xxxxx@h",
		"redis://u:@h":                 "redis://xxxxx@h",
	} {
		if got := URL(in); got != want {
			t.Errorf("URL(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestError: no form of a password is left in an error.
func TestError(t *testing.T) {
	for _, address := range []string{
		"redis://u:secret@h:port/2", // does not parse: the error quotes it
		"redis://u:s%65cret@h:1",
		"redis://u:sec ret@h:1",
	} {
		_, cause := url.Parse(address)
		if cause == nil {
			cause = errors.New("refused")
		}
		err := Error(address, errors.Join(cause, errors.New("tried secret and s%65cret at "+address)))
		for _, secret := range []string{"secret", "s%65cret", "sec ret"} {
			if strings.Contains(address, secret) && strings.Contains(err.Error(), secret) {
				t.Errorf("%q is in %q", secret, err)
			}
		}
		if !errors.Is(err, cause) {
			t.Errorf("%v does not wrap its cause", err)
		}
	}
}

// TestLogger: no password is left in messages, errors and texts, wherever they are added.
func TestLogger(t *testing.T) {
	var log bytes.Buffer
	r := New("redis://u:pass%20word@h", "another secret")
	for _, secret := range []string{"pass%20word", "pass word", "another secret"} {
		log.Reset()
		quoting := fmt.Errorf("it was sent %s", secret)
		r.Logger(slog.New(slog.NewTextHandler(&log, nil))).With("err", quoting).WithGroup("g").Warn(quoting.Error(), "err", quoting, "text", secret)
		if got := log.String(); strings.Count(got, Hidden) != 4 || strings.Contains(got, secret) {
			t.Errorf("%s", got)
		}
	}
}
