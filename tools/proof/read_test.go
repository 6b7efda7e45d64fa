package main

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// readFile has a part read what was once printed, and returns the record. The command is taken to have
// failed if a test has.
func readFile(t *testing.T, p *part, path string) *record {
	t.Helper()
	text, err := os.Open("testdata/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	n, r := newNotes(p), new(record)
	n.all(text, io.Discard)
	var ended error
	if len(n.failed) > 0 {
		ended = io.ErrUnexpectedEOF
	}
	n.fill(r, ended, false)
	return r
}

// partOf returns the one with that name.
func partOf(t *testing.T, name string) *part {
	t.Helper()
	chosen, err := choose(name)
	if err != nil || len(chosen) != 1 {
		t.Fatalf("%s: %v, %v", name, chosen, err)
	}
	return chosen[0]
}

// TestRead: what tests have printed is counted. The files are what they printed one day.
func TestRead(t *testing.T) {
	for _, test := range []struct {
		part, file, result string
		counts             map[string]int
	}{
		{"crash", "crash.json", passedRun, map[string]int{
			"kills": 8, "puts acknowledged": 1840 + 3563 + 4032 + 440, "puts unknown to clients": 192, "deletes acknowledged": 1851 + 3563 + 4032 + 442,
			"deletes unknown to clients": 73, "lost": 0, "back from the dead": 0, "deleted twice": 0, "put twice": 0, "ids reused": 0, "tests": 4,
		}},
		{"disk", "disk.json", passedRun, map[string]int{"faults": 5, "operations": 218 + 14 + 5, "tests": 3}},
		{"power", "wal.json", passedRun, map[string]int{"power cuts": 906, "tests": 4}},
		{"chaos-redis", "chaos.json", passedRun, map[string]int{
			"rounds": 2, "rounds with two faults": 2, "puts acknowledged": 2028, "puts unknown to clients": 300, "deletes acknowledged": 2160,
			"deletes unknown to clients": 87, "lost": 0, "back from the dead": 0, "deleted twice": 0, "put twice": 0, "ids reused": 0, "tests": 1,
		}},
		{"differ-memory", "differ.json", passedRun, map[string]int{
			"commands": 3528 + 490, "scripts": 18, "scripts cut short": 0, "scripts failed once and not again": 0, "tests": 1,
		}},
		{"move-live", "move.json", passedRun, map[string]int{"jobs moved": 1800, "jobs deleted": 1800, "deletes unknown to clients": 1, "tests": 2}},
		{"import", "import-failed.json", failedRun, map[string]int{"jobs imported": 40_000}},
		{"attack", "attack.txt", passedRun, map[string]int{"attacks": 3}},
	} {
		r := readFile(t, partOf(t, test.part), test.file)
		if r.Result != test.result || !maps.Equal(r.Counts, test.counts) {
			t.Errorf("%s: %s, %v, want %s, %v", test.file, r.Result, r.Counts, test.result, test.counts)
		}
	}
}

// TestReadKinds: kinds that there might have been and were not are known.
func TestReadKinds(t *testing.T) {
	r := readFile(t, partOf(t, "chaos-redis"), "chaos.json")
	happened := slices.DeleteFunc(slices.Sorted(maps.Keys(r.Kinds)), func(kind string) bool { return r.Kinds[kind] == 0 })
	if len(r.Kinds) != 12 || strings.Join(happened, " | ") != "`CLIENT PAUSE` of a primary for 0.2 to 3 s | an instance is killed, another one started 0.2 to 1 s later | "+
		"connections of an instance to a primary are cut, likewise; once an answer is lost without a word | connections of clients are cut, before, in and behind requests and answers" {
		t.Errorf("%d kinds, of which %q", len(r.Kinds), happened)
	}
	r = readFile(t, partOf(t, "attack"), "attack.txt")
	if len(r.Kinds) != 3 || r.Kinds["idle-waits"] != 1 || len(r.Said) != 9 {
		t.Errorf("%v, %q", r.Kinds, r.Said)
	}
}

// TestReadLongLine: go test hands a line of more than 1 KiB on in parts, between lines of other tests.
func TestReadLongLine(t *testing.T) {
	n := newNotes(partOf(t, "chaos-redis"))
	for _, e := range []event{
		{Action: "output", Test: "TestChaos/a", Output: "    chaos_test.go:82: 2 kinds of faults: one is"},
		{Action: "output", Test: "TestChaos/b", Output: "    chaos_test.go:99: another one\n"},
		{Action: "output", Test: "TestChaos/a", Output: " killed | one is frozen\n"},
		{Action: "output", Test: "TestChaos/b", Output: "panic: in the middle of"},
		{Action: "fail", Test: "TestChaos/b"},
	} {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		n.line(string(line) + "\n")
	}
	if kinds := slices.Sorted(maps.Keys(n.kinds)); !slices.Equal(kinds, []string{"one is frozen", "one is killed"}) {
		t.Errorf("%q", kinds)
	}
	if said := n.outputs["TestChaos/b"]; len(said) != 2 || !strings.HasPrefix(said[1], "panic:") {
		t.Errorf("%q", said)
	}
}

// TestReadFound: what a test that failed has said is kept, and what is around it is not.
func TestReadFound(t *testing.T) {
	r := readFile(t, partOf(t, "import"), "import-failed.json")
	text := strings.Join(r.Found, "\n")
	if !strings.HasPrefix(text, "TestImportMany:\nimport_test.go:275: code 0, 235.233214ms: ") || strings.Contains(text, "FAIL") || strings.Contains(text, "===") {
		t.Errorf("%s", text)
	}
}

// TestReadBooksThatAreWrong: rare faults are counted by their names, and what had a reason is not.
func TestReadBooksThatAreWrong(t *testing.T) {
	n := newNotes(crash)
	n.output("TestCrash", "    crash_test.go:112: 3 rounds: puts 9 (acknowledged 5, refused 0, unknown 4), deletes 3 (acknowledged 2, unknown 1), live 0, overtaken 1, "+
		"broken connections 18, longest silence 2.036s, internal errors 3; lost 1, back from the dead 0, deleted twice 0, put twice 0, ids reused 0, "+
		"handed out though another client had it 2, handed out again (TTR ran out, or so) 14")
	if want := map[string]int{
		"kills": 2, "puts acknowledged": 5, "puts unknown to clients": 4, "deletes acknowledged": 2, "deletes unknown to clients": 1, "lost": 1,
		"back from the dead": 0, "deleted twice": 0, "put twice": 0, "ids reused": 0, "handed out though another client had it": 2,
	}; !maps.Equal(n.counts, want) {
		t.Errorf("%v, want %v", n.counts, want)
	}
}

// TestSkipped: a part one of whose tests was not played is void, whatever was counted.
func TestSkipped(t *testing.T) {
	n, r := newNotes(crash), new(record)
	for _, line := range []string{
		`{"Action":"run","Test":"TestCrash"}`,
		`{"Action":"output","Test":"TestCrash","Output":"    chaos_test.go:1: void, as the machine is too busy\n"}`,
		`{"Action":"skip","Test":"TestCrash"}`, `{"Action":"pass"}`,
	} {
		n.line(line)
	}
	n.counts["kills"] = 5
	if n.fill(r, nil, false); r.Result != voidRun || strings.Join(r.Found, " ") != "TestCrash: chaos_test.go:1: void, as the machine is too busy" {
		t.Errorf("%s, %q", r.Result, r.Found)
	}
}
