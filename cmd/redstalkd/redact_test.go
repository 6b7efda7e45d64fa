package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
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
		err := redactError(address, errors.Join(cause, errors.New("tried secret and s%65cret at "+address)))
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

// reveals reports whether a text contains a part of a secret, of four characters or more.
func reveals(text, secret string) bool {
	for at := range len(secret) - 3 {
		if strings.Contains(text, secret[at:at+4]) {
			return true
		}
	}
	return false
}

// TestNothingTellsSecrets runs the program with passwords that contain every printable
// character, raw and encoded, in all values that can be mistyped.
func TestNothingTellsSecrets(t *testing.T) {
	forms := []string{
		"redis://u:%s@127.0.0.1:1/0", "redis://:%s@127.0.0.1:port", "redis+cluster://u:%s@127.0.0.1:1,127.0.0.1:2",
		"unix://u:%s@/nowhere/r.sock", "rediss://u:%s@127.0.0.1:1?ca=/nowhere", "redis+sentinel://u:%s@127.0.0.1:1",
		"redis//u:%s@h", "reddis://u:%s@h", "redis:u:%s@h", "redis://u:%s", "redis:/u:%s@h",
	}
	for c := byte(' '); c <= '~'; c++ {
		secret := "Zq7x" + string(c) + "Wv9k" + string(c) + "8Jy4"
		for i, form := range forms {
			raw, encoded := fmt.Sprintf(form, secret), fmt.Sprintf(form, strings.ReplaceAll(url.PathEscape(secret), "@", "%40"))
			if c == '@' && !strings.Contains(form, "@") {
				continue // what is after the last @ is a host
			}
			lines := [][]string{{"--store", raw}, {"--store=" + encoded, "-VV"}, {"fsck", "--store", raw}}
			if i == 0 {
				lines = append(lines, []string{"-p", raw}, []string{"-l", raw}, []string{raw}, []string{"--" + raw}, []string{"-z", raw}, []string{"--store", raw, "-h"})
			}
			for _, args := range lines {
				var out strings.Builder
				set := map[string]string{}
				if i%2 == 0 {
					set["REDSTALK_STORE"] = raw
				}
				m := Main{LookupEnv: func(name string) (string, bool) { return set[name], set[name] != "" }}
				if args[0] != "-p" && args[0] != "fsck" {
					args = append([]string{"-p0"}, args...)
				}
				code := m.Run(t.Context(), args, &out, &out)
				if reveals(out.String(), secret) || code == 0 && !strings.Contains(out.String(), "Use:") {
					t.Errorf("%q: code %d, %s", args, code, out.String())
				}
			}
		}
	}
}
