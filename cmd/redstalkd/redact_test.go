package main

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"memory:":                      "memory:",
		"embedded:/a@b":                "embedded:/a@b",
		"redis://h:1/2":                "redis://h:1/2",
		"redis://u:secret@h:1/2":       "redis://u:xxxxx@h:1/2",
		"redis://:secret@h":            "redis://:xxxxx@h",
		"redis://secret@h":             "redis://xxxxx@h",
		"redis://u:sec@ret/?#:x@h:1/2": "redis://u:xxxxx@h:1/2",
		"unix://u:secret@/run/r.sock":  "unix://u:xxxxx@/run/r.sock",
		"unix:/a@b":                    "unix:/a@b",
		"redis//u:secret@h":            "redis//u:xxxxx@h",
		"redis:u:secret@h":             "redis:xxxxx@h",
		"u:secret@h":                   "u:xxxxx@h",
		"embedded:redis://u:secret@h":  "embedded:redis://u:xxxxx@h",
		"redis://u:@h":                 "redis://u:@h",
	} {
		if got := redact(in); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestScrub(t *testing.T) {
	for _, address := range []string{
		"redis://u:secret@h:port/2", // does not parse: the error quotes it
		"redis://u:s%65cret@h:1",
		"redis://u:sec ret@h:1",
	} {
		_, cause := url.Parse(address)
		if cause == nil {
			cause = errors.New("refused")
		}
		err := scrub(address, errors.Join(cause, errors.New("tried secret and s%65cret at "+address)))
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
