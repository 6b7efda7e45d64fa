package main

import (
	"os"
	"strings"
	"testing"
)

// TestStand: only what passed counts, a seed once, and kinds as far as they were there.
func TestStand(t *testing.T) {
	rounds := func(part, result string, seed uint64, n int) *record {
		return &record{Part: part, Result: result, Seed: seed, Counts: map[string]int{"rounds": n}, Kinds: map[string]int{result: n, "never": 0}}
	}
	all := []*record{
		rounds("chaos-redis", passedRun, 7, 50), rounds("chaos-redis", passedRun, 7, 30), rounds("chaos-redis", passedRun, 8, 5),
		rounds("chaos-cluster", passedRun, 7, 100), rounds("chaos-cluster", failedRun, 9, 1000), rounds("chaos-cluster", voidRun, 9, 1000),
		rounds("chaos-cluster", stoppedRun, 9, 1000), rounds("chaoses", passedRun, 9, 1000), rounds("disk", passedRun, 0, 3), rounds("disk", passedRun, 0, 4),
	}
	for _, test := range []struct {
		goal goal
		want standing
	}{
		{goal{parts: "chaos", count: "rounds", wanted: 1000}, standing{counted: 155, wanted: 1000, passed: 4, failed: 1, rest: 2}},
		{goal{parts: "chaos"}, standing{counted: 1, wanted: 5, passed: 4, failed: 1, rest: 2}},
		{goal{parts: "disk", count: "rounds"}, standing{counted: 7, passed: 2}},
		{goal{parts: "disk", count: "rounds", atOnce: true}, standing{counted: 4, passed: 2}},
		{goal{parts: "power", count: "power cuts"}, standing{}},
	} {
		if got := test.goal.stand(all); got != test.want {
			t.Errorf("%+v: %+v, want %+v", test.goal, got, test.want)
		}
	}
}

// TestGoalsAreOfParts: each goal is about parts that there are, and each part but those that are
// about nothing to be counted has one.
func TestGoalsAreOfParts(t *testing.T) {
	reached := make(map[string]bool)
	for _, g := range goals {
		found := false
		for _, p := range parts {
			if g.is(p.name) {
				found, reached[p.name] = true, true
			}
		}
		if !found {
			t.Errorf("there is no part %s", g.parts)
		}
	}
	for _, p := range parts {
		if !reached[p.name] && p != failover && p != hostile && p != importing {
			t.Errorf("%s counts for nothing", p.name)
		}
	}
}

// TestPageIsOfTheRecords: the page in docs is what the records make.
func TestPageIsOfTheRecords(t *testing.T) {
	all, err := readRecords("../../docs/proof.jsonl")
	if err != nil || len(all) == 0 {
		t.Fatalf("%d records: %v", len(all), err)
	}
	text, err := os.ReadFile("../../docs/proof.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != page(all) {
		t.Error("docs/proof.md is not what docs/proof.jsonl makes: `bin/proof -page-only` writes it")
	}
}

// TestPageSaysWhatWasFound: a run that has found something is told of, with the seed, and without
// an end of the block that its text is in.
func TestPageSaysWhatWasFound(t *testing.T) {
	r := &record{Part: "crash", Result: failedRun, Seed: 7, Again: "make proof PARTS=crash ROUNDS=5 SEED=7", Commit: "abc", Found: []string{"lost 1", "```"},
		Remark: "Mended.", Counts: map[string]int{"lost": 1, "puts acknowledged": 1234}}
	text := page([]*record{r})
	for _, want := range []string{
		"**crash**, failed, 0001-01-01 00:00, at `abc`. To do it again: `make proof PARTS=crash ROUNDS=5 SEED=7`\n\n```text\nlost 1\n'''\n```\n\nMended.\n",
		"| kills of the server under load | 0 | 1,000 | 0 % | 0 | 1 | 0 |\n", ": 1,234 puts and 0 deletes acknowledged; lost 1; back from the dead 0;",
		"| `abc` | 7 | failed | lost 1, puts acknowledged 1,234 | 0s | 1 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}
