package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// retiredWords are words that only this project used in their sense, with the standard word that
// replaced them. They must not come back, neither in a text nor in a name such as usherMu.
var retiredWords = map[string]string{
	"astray": "permission denied", "attendance": "references", "bringer": "migrator", "comeback": "its purpose",
	"deaf": "nop listener", "doomed": "forceClose", "enginetest": "storetest", "foreseen": "dispatch",
	"newlaw": "aclChanged", "strangers": "unauthenticated", "tardiness": "timer lag", "unkept": "not buffered",
	"usher": "dispatcher", "vigil": "idle check",
}

// retired matches the retired words as whole words, or as parts of a camel-case name.
var retired = func() *regexp.Regexp {
	var all []string
	for word := range retiredWords {
		all = append(all, word+"([^a-z]|$)")
	}
	lower := strings.Join(all, "|")
	upper := regexp.MustCompile(`(^|\|)[a-z]`).ReplaceAllStringFunc(lower, strings.ToUpper)
	return regexp.MustCompile(`\b(` + lower + `)|(` + upper + `)`)
}()

// TestRetiredWords checks file names and texts of the whole tree.
func TestRetiredWords(t *testing.T) {
	for _, path := range tracked(t, "*.go", "*.lua", "*.md", "Makefile") {
		if path == "CHANGELOG.md" || path == "tools/checks/words_test.go" { // about the past; this file
			continue
		}
		text, err := os.ReadFile(at(path))
		if err != nil {
			t.Fatal(err)
		}
		if !mayHaveRetired(filepath.Base(path) + string(text)) {
			continue
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range append([]string{filepath.Base(path)}, lines...) { // line 0 is the file's name
			for _, found := range retired.FindAllString(line, -1) {
				word := regexp.MustCompile(`[a-z]+`).FindString(strings.ToLower(found))
				t.Errorf("%s:%d: instead of %q write %q", path, i, word, retiredWords[word])
			}
		}
	}
}

// mayHaveRetired reports whether a text has the letters of a retired word. With -race the expression takes half a minute
// for the whole tree.
func mayHaveRetired(text string) bool {
	text = strings.ToLower(text)
	for word := range retiredWords {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// TestRetired checks what the expression matches.
func TestRetired(t *testing.T) {
	for text, want := range map[string]bool{
		"the usher of a tube": true, "usherMu": true, "q.Usher": true, "stopUsher()": true, "strangers": true,
		"pusher": false, "flushed": false, "a stranger": false, "ushered": false,
	} {
		if got := retired.MatchString(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
