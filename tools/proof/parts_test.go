package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// functions are the names of those in the tests below a directory, as far as they match a pattern
// whose group is the name.
func functions(t *testing.T, dir string, pattern *regexp.Regexp) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t `)

// TestPartsHaveTests: what a part runs exists.
func TestPartsHaveTests(t *testing.T) {
	for _, p := range parts {
		for _, line := range p.commands(options{seed: 7}) {
			at := slices.Index(line, "-run")
			if at < 0 || !strings.HasPrefix(line[at+2], "./") {
				continue
			}
			top, _, _ := strings.Cut(line[at+1], "/")
			pattern := regexp.MustCompile(top)
			if !slices.ContainsFunc(functions(t, filepath.Join("../..", line[at+2]), testFunction), pattern.MatchString) {
				t.Errorf("%s: no test in %s is %s", p.name, line[at+2], top)
			}
		}
	}
}

// TestAllFuzzersAreRun: `make fuzz` knows each of them.
func TestAllFuzzersAreRun(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	all := functions(t, "../..", regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f `))
	if len(all) == 0 {
		t.Fatal("there are no fuzzers")
	}
	for _, name := range all {
		if !strings.Contains(string(makefile), "-fuzz '^"+name+"$$'") {
			t.Errorf("make fuzz leaves out %s", name)
		}
	}
}

func TestChoose(t *testing.T) {
	for names, want := range map[string]string{
		"chaos-redis": "chaos-redis", "differ-redis,crash": "crash differ-redis", "move": "move-live move-behind", "chao": "?", "crash,nothing": "?",
	} {
		chosen, err := choose(names)
		var got []string
		for _, p := range chosen {
			got = append(got, p.name)
		}
		if err != nil {
			got = []string{"?"}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", names, got, err)
		}
	}
}

// TestAgain: the command that is recorded asks for the same.
func TestAgain(t *testing.T) {
	for _, test := range []struct {
		part *part
		o    options
		want string
	}{
		{crash, options{seed: 7}, "make proof PARTS=crash ROUNDS=250 SEED=7"},
		{beyond, options{seed: 7, commands: 50}, "make proof PARTS=beyond COMMANDS=50 SEED=7"},
		{fuzz, options{seed: 7, fuzztime: "5s"}, "make proof PARTS=fuzz FUZZTIME=5s"},
		{attack, options{attacks: "a,b"}, "make proof PARTS=attack ATTACKS=a,b"},
		{disk, options{seed: 7}, "make proof PARTS=disk"},
	} {
		if got := test.part.again(test.o); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// TestRun: a part becomes a record, whether it passes, fails, counts nothing, or is stopped with all
// that it has started.
func TestRun(t *testing.T) {
	const moved = "echo '12 jobs: 11 were deleted, of 1 it is not known'"
	for _, test := range []struct {
		script, result, found string
		counted               int
	}{
		{moved, passedRun, "", 12},
		{moved + "; echo 'main.go:1: no'; exit 3", failedRun, "main.go:1: no", 12},
		{"exit 1", failedRun, "sh -c exit 1: exit status 1", 0},
		{"true", voidRun, "nothing was counted", 0},
		{moved + "; sleep 600 & wait", stoppedRun, "", 12},
	} {
		p := &part{
			name: "test", given: givenNothing, read: []reader{readMoved}, seeded: true,
			commands: func(options) [][]string { return one("sh", "-c", test.script) },
		}
		o := options{seed: 7}
		if test.result == stoppedRun {
			o.limit = 300 * time.Millisecond
		}
		r, err := p.run(t.Context(), o, t.TempDir())
		for r != nil && r.Counts["jobs moved"] == 0 && 0 < o.limit && o.limit < time.Minute {
			o.limit *= 4 // the machine is busy: nothing was said before the end
			r, err = p.run(t.Context(), o, t.TempDir())
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Result != test.result || r.Counts["jobs moved"] != test.counted || strings.Join(r.Found, " ") != test.found || r.Seed != 7 || r.Seconds > 60 {
			t.Errorf("%s: %+v", test.script, r)
		}
		path := filepath.Join(t.TempDir(), "records")
		for range 2 {
			if err := appendRecord(path, r); err != nil {
				t.Fatal(err)
			}
		}
		if back, err := readRecords(path); err != nil || len(back) != 2 || back[1].String() != r.String() || back[1].Machine != r.Machine {
			t.Errorf("%v: %v", back, err)
		}
	}
}
