package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

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
				set := map[string]string{"REDSTALK_STORE_TIMEOUT": "2ms"}
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
