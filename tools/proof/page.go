package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// writePage makes the page of the records.
func writePage(where paths) error {
	all, err := readRecords(where.records)
	if err != nil {
		return err
	}
	if err := os.WriteFile(where.page, []byte(page(all)), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

const opening = `# Proof

What was done to redstalk to find where it does not keep its word, what was counted, and what was found. This page is
made by ` + "`make proof`" + ` of the records in [proof.jsonl](proof.jsonl), a line for each run; nothing in it is written by hand but remarks.
[testing.md](testing.md) says what each kind of test does.

` + "```sh" + `
make proof
make proof PARTS=chaos-cluster ROUNDS=50 SEED=7
make proof PARTS=crash,differ LIMIT=8m
` + "```" + `

- [How far it is](#how-far-it-is)
- [What was found](#what-was-found)
- [Faults of chaos](#faults-of-chaos)
- [What attacks have measured](#what-attacks-have-measured)
- [All runs](#all-runs)
- [Machines](#machines)

`

// page is the whole page.
func page(all []*record) string {
	var b strings.Builder
	b.WriteString(opening)
	pageOfGoals(&b, all)
	pageOfFindings(&b, all)
	pageOfFaults(&b, all)
	pageOfAttacks(&b, all)
	pageOfRuns(&b, all)
	pageOfMachines(&b, all)
	return b.String()
}

func pageOfGoals(b *strings.Builder, all []*record) {
	b.WriteString("## How far it is\n\nOnly runs that passed count, and of several with one seed the largest.\n\n" +
		"| what | counted | wanted | | runs that passed | found something | void or stopped |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, g := range goals {
		s := g.stand(all)
		wanted, share := "", ""
		if s.wanted > 0 {
			wanted, share = thousands(s.wanted), fmt.Sprintf("%d %%", min(100, 100*s.counted/s.wanted))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %d | %d | %d |\n", g.title, thousands(s.counted), wanted, share, s.passed, s.failed, s.rest)
	}
	pageOfBooks(b, all)
}

// wrongs are what a ledger must not have, in the words of its report.
var wrongs = []string{
	"lost", "back from the dead", "deleted twice", "put twice", "ids reused", "bodies changed", "strange jobs", "miscounted", "garbled replies",
	"handed out though another client had it", "taken from who had it",
}

// pageOfBooks adds up what the ledgers of all runs have, those that failed as well.
func pageOfBooks(b *strings.Builder, all []*record) {
	sums := make(map[string]int)
	for _, r := range all {
		for name, n := range r.Counts {
			sums[name] += n
		}
	}
	fmt.Fprintf(b, "\nThe ledgers of all runs together, those that found something as well: %s puts and %s deletes acknowledged",
		thousands(sums["puts acknowledged"]), thousands(sums["deletes acknowledged"]))
	for _, name := range wrongs {
		fmt.Fprintf(b, "; %s %s", name, thousands(sums[name]))
	}
	b.WriteString(".\n\n")
}

func pageOfFindings(b *strings.Builder, all []*record) {
	b.WriteString("## What was found\n\n")
	none := true
	for _, r := range all {
		if r.Result == passedRun {
			continue
		}
		none = false
		fmt.Fprintf(b, "**%s**, %s, %s, at %s. To do it again: `%s`\n\n", r.Part, r.Result, when(r), commitOf(r), r.Again)
		if len(r.Found) > 0 {
			fmt.Fprintf(b, "```text\n%s\n```\n\n", strings.ReplaceAll(strings.Join(r.Found, "\n"), "```", "'''"))
		}
		if r.Remark != "" {
			fmt.Fprintf(b, "%s\n\n", r.Remark)
		}
	}
	if none {
		b.WriteString("Nothing, in all these runs.\n\n")
	}
}

func pageOfFaults(b *strings.Builder, all []*record) {
	b.WriteString("## Faults of chaos\n\nHow often each happened, in runs that passed.\n\n| fault | one Redis | Sentinel, 2 of 2 | Sentinel, 1 of 2 | Cluster |\n|---|--:|--:|--:|--:|\n")
	ways := []string{"chaos-redis", "chaos-sentinel-2", "chaos-sentinel-1", "chaos-cluster"}
	times := make(map[string]map[string]int) // fault, part
	for _, r := range all {
		if !slices.Contains(ways, r.Part) {
			continue
		}
		for kind, n := range r.Kinds {
			if times[kind] == nil {
				times[kind] = make(map[string]int)
			}
			if r.Result != passedRun {
				n = 0
			}
			times[kind][r.Part] += n
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(times)) {
		fmt.Fprintf(b, "| %s |", kind)
		for _, way := range ways {
			if n, is := times[kind][way]; is {
				fmt.Fprintf(b, " %d |", n)
			} else {
				b.WriteString(" |")
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// pageOfAttacks has the figures for people: of attacks, and of imports.
func pageOfAttacks(b *strings.Builder, all []*record) {
	b.WriteString("## What attacks have measured\n\n")
	for _, r := range all {
		if len(r.Said) > 0 {
			fmt.Fprintf(b, "%s, %s, at %s:\n\n```text\n%s\n```\n\n", r.Part, when(r), commitOf(r), strings.Join(r.Said, "\n"))
		}
	}
}

func pageOfRuns(b *strings.Builder, all []*record) {
	b.WriteString("## All runs\n\nThe last column is the load average of the machine at the beginning and at the end: others work on it, too.\n\n" +
		"| begun (UTC) | part | commit | seed | result | counted | took | machine | load |\n|---|---|---|--:|---|---|--:|--:|---|\n")
	machines := machinesOf(all)
	for _, r := range all {
		var counts []string
		for _, name := range slices.Sorted(maps.Keys(r.Counts)) {
			if n := r.Counts[name]; n > 0 || name == "lost" {
				counts = append(counts, fmt.Sprintf("%s %s", name, thousands(n)))
			}
		}
		seed := ""
		if r.Seed != 0 {
			seed = fmt.Sprint(r.Seed)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %v | %d | %s |\n", when(r), r.Part, commitOf(r), seed, r.Result,
			strings.Join(counts, ", "), time.Duration(r.Seconds)*time.Second, 1+slices.Index(machines, r.Machine), r.Load)
	}
	b.WriteString("\n")
}

func pageOfMachines(b *strings.Builder, all []*record) {
	b.WriteString("## Machines\n\n| | cores | kernel | Go | beanstalkd | redis-server |\n|--:|--:|---|---|---|---|\n")
	for i, m := range machinesOf(all) {
		fmt.Fprintf(b, "| %d | %d | %s | %s | %s | %s |\n", i+1, m.Cores, m.Kernel, m.Go, m.Beanstalkd, m.Redis)
	}
}

// machinesOf are those of all records, each once.
func machinesOf(all []*record) (machines []machine) {
	for _, r := range all {
		if !slices.Contains(machines, r.Machine) {
			machines = append(machines, r.Machine)
		}
	}
	return machines
}

func when(r *record) string { return r.Time.Format("2006-01-02 15:04") }

// commitOf names the commit, and whether the tree was changed.
func commitOf(r *record) string {
	name := "`" + cmp.Or(r.Commit, "?") + "`"
	if r.Changed {
		name += " with changes"
	}
	return name
}

// thousands writes a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
