// Package ended has the records of ended jobs of the embedded engine (tube.Ended).
//
//   - codec.go: records as bytes, in memory, in the log and in the tables.
//   - memory.go: Memory, records in memory: all of them without a journal; with one, those that are not in the tables yet.
//   - bounds.go: which tube has the oldest record: for the bound of all records.
//
// In the tables they are in package tables.
package ended
