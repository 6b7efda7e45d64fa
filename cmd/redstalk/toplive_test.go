package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"redstalk/protocol"
)

// TestSplitKeys: keys that were typed fast are told apart.
func TestSplitKeys(t *testing.T) {
	if got, want := splitKeys("?\x1b[A\x1b[5~jq\x1b"), []string{"?", "\x1b[A", "\x1b[5~", "j", "q", "\x1b"}; !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
}

// TestTopNarrow: the table fits into 60 columns, and says something in 20.
func TestTopNarrow(t *testing.T) {
	s := &screen{tubes: []tubeRates{{tubeStats: tubeStats{Name: "thumbnails-large", Ready: 1234567, Buried: 1}, PutRate: 12}}}
	for width, want := range map[int]string{200: "DELETES/s", 60: "BURIED", 20: "READY"} {
		lines := s.rows(width, 10)
		if !strings.HasSuffix(lines[0].text, want) && width != 60 || !strings.Contains(lines[0].text, want) {
			t.Errorf("%d columns: %q", width, lines[0].text)
		}
		if width >= 60 && utf8.RuneCountInString(lines[1].text) > width {
			t.Errorf("%d columns: %q", width, lines[1].text)
		}
	}
}

// TestClosest: a mistyped word is recognized, another one is not.
func TestClosest(t *testing.T) {
	words := []string{"tubes", "put", "reserve", "stats", "status", "schedules"}
	for word, want := range map[string]string{"tbues": "tubes", "tube": "tubes", "resrve": "reserve", "stat": "stats", "schedule": "schedules", "xyzzy": "", "": "", "q": ""} {
		if got := protocol.Closest(word, words); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
