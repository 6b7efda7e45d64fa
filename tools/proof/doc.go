// Command proof runs what has to be shown before a release, for hours or in parts, keeps a record of
// each run, and writes a page of the records.
//
//	make proof [PARTS=a,b] [ROUNDS=n] [COMMANDS=n] [FUZZTIME=t] [ATTACKS=a,b] [SEED=n] [LIMIT=t]
//
// # What lives here
//
//   - main.go: flags, the parts one after the other.
//   - parts.go: the table of parts, the command line of each.
//   - run.go: one part is run; what it prints goes to a file below bin, and to the readers.
//   - read.go: the readers, which find what was counted in what tests print.
//   - record.go: a record is what came of a run. docs/proof.jsonl has one a line.
//   - goals.go: what is to be reached, and how far the records are.
//   - page.go: docs/proof.md, made of the records and of nothing else.
//
// # Invariants
//
//   - What went wrong is recorded as what went right is: with the seed, and how to do it again.
//   - Only runs that passed count for a goal, and of several with one seed the largest.
//   - No count is made up: all are read from what the tests have printed.
//
// # What does not
//
// The tests themselves: they are in the packages that they are about, and docs/testing.md tells
// of them. Nothing here knows what a job is.
package main
