package redstalk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// retired are words that this project once used in a sense of its own, with the
// word that is used now. They must not come back, in any letter case, as a word of
// their own or as a part of a name such as hallMu.
var retired = map[string]string{
	"hall": "waitlists", "halls": "waitlists",
	"knock": "hint", "knocks": "hints", "knocked": "hinted", "knocking": "hinting",
	"mailbox": "notifications", "mailboxes": "notifications",
	"sign of life": "heartbeat", "signs of life": "heartbeats",
	"bell": "timer", "bells": "timers",
	"draft": "ingest file", "drafts": "ingest files",
	"glance": "a verb that says what happens", "glances": "a verb that says what happens",
	"he": "the session, the waiter, the loop, the caller", "him": "the session, the waiter, the loop, the caller",
	"his": "its", "himself": "itself",
}

// retiredInServers are retired in servers and engines; elsewhere a tube may have
// such a name.
var retiredInServers = map[string]string{"mail": "notifications"}

// retiredFiles are retired as the name of a file, or as a part of it.
var retiredFiles = map[string]string{"remember": "bodycache", "letter": "notifications", "letters": "notifications"}

// redisKey matches the key of Redis, and its type, whose bytes stay as they are
// though the word is retired.
var redisKey = regexp.MustCompile("mail:|:mail|[\"'`]mail[\"'`]")

// notOurs tells whether a file is not written in the words of today: it tells of
// the past, or is this one.
func notOurs(path string) bool { return path == "CHANGELOG.md" || path == "words_test.go" }

// hit is a retired word that was found.
type hit struct {
	word string // or several, with single spaces
	line int    // of its beginning, counted from 1
}

// hits returns where a text has retired words. Several words may be on two lines.
func hits(text string, retired map[string]string) (found []hit) {
	begins := make(map[string]bool)
	for phrase := range retired {
		first, _, _ := strings.Cut(phrase, " ")
		begins[first] = true
	}
	line, counted := 1, 0
	for begin, end := nextWord(text, 0); begin < end; begin, end = nextWord(text, end) {
		phrase, behind := strings.ToLower(text[begin:end]), end
		if !begins[phrase] {
			continue
		}
		line += strings.Count(text[counted:begin], "\n")
		counted = begin
		for range longestPhrase {
			if _, ok := retired[phrase]; ok {
				found = append(found, hit{phrase, line})
			}
			var from int
			from, behind = nextWord(text, behind)
			phrase += " " + strings.ToLower(text[from:behind])
		}
	}
	return found
}

// longestPhrase is how many words a retired expression has at most.
const longestPhrase = 3

// nextWord returns where the next word of a text is: letters of which only the first
// ones are large, so that the words of a name are found, too. It is empty if there is
// none.
func nextWord(text string, at int) (begin, end int) {
	isLarge := func(at int) bool { return at < len(text) && 'A' <= text[at] && text[at] <= 'Z' }
	isSmall := func(at int) bool { return at < len(text) && 'a' <= text[at] && text[at] <= 'z' }
	for at < len(text) && !isLarge(at) && !isSmall(at) {
		at++
	}
	begin = at
	for isLarge(at) {
		at++
	}
	for isSmall(at) {
		at++
	}
	return begin, at
}

// TestRetiredWords: one thing has one word, so those of the past must not come
// back.
func TestRetiredWords(t *testing.T) {
	for _, path := range tracked(t, "*.go", "*.lua", "*.md", "Makefile") {
		for _, names := range []map[string]string{retired, retiredInServers, retiredFiles} {
			for _, h := range hits(filepath.Base(path), names) {
				t.Errorf("%s: a file named after %q, which is now %q", path, h.word, names[h.word])
			}
		}
		if notOurs(path) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		wantNone(t, path, string(text), retired)
		if strings.HasPrefix(path, "server/") || strings.HasPrefix(path, "storage/") {
			wantNone(t, path, redisKey.ReplaceAllString(string(text), ""), retiredInServers)
		}
	}
}

func wantNone(t *testing.T, path, text string, retired map[string]string) {
	t.Helper()
	for _, h := range hits(text, retired) {
		t.Errorf("%s:%d: %q is now %q", path, h.line, h.word, retired[h.word])
	}
}

// TestHits: words are found in sentences and in names, and nothing else is.
func TestHits(t *testing.T) {
	for text, want := range map[string]string{
		"the hall, a line":                 "hall:1",
		"s.hallMu.Lock()":                  "hall:1",
		"HALL":                             "hall:1",
		"\n\nno Signs of Life":             "signs of life:3",
		"// each gives a sign of\n// life": "sign of life:1",
		"ring_bell(he)\nGlance":            "bell:1 he:1 glance:2",
		"shall the challenge":              "",
		"email, drafty":                    "",
		"a sign of lifetime":               "",
		"held here, this":                  "",
	} {
		var got []string
		for _, h := range hits(text, retired) {
			got = append(got, fmt.Sprintf("%s:%d", h.word, h.line))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
