// Package tables keeps jobs on the disk, in Pebble, once the segments of the log that
// recorded them are used again. It holds no lock, carries out no operation and has no
// clock: the engine (package embedded) decides what is written and when.
//
// Read it in this order:
//
//   - tables.go: the keys, and Tables, which is an open Pebble without a log of its own.
//   - record.go, metadata.go, rows.go, named.go, schedule.go, batch.go, marks.go, tally.go: how records of jobs, policies, schedules, batches,
//     pauses, tombstones, imports and tallies are encoded. Entries of the engine's log use the same encoding.
//   - read.go: reading jobs and bodies. cold.go: jobs that a start does not read, and their index. checkpoint.go: the checkpoints of jobs. ended.go: records of ended jobs, and which of them go.
//   - ingest.go, write.go: an Ingest, which writes sorted files that Pebble takes over as a
//     whole. Nearly all data gets into the tables this way.
//   - open.go: opening Pebble, and what it logs.
//   - check.go: Check, which compares all rows, and repairs what follows from others; checkjobs.go: the rows of jobs; checkrows.go: those that follow from
//     records.
//   - fs.go: the file system that Pebble gets.
//
// # Invariants
//
//   - The files of an Ingest become part of the tables all at once or not at all.
//   - Tables of an older layout are upgraded, those of an unknown one are refused.
//   - Nothing is read from or written to a directory that has replaced the tables': the
//     error is wal.ErrGone.
package tables
