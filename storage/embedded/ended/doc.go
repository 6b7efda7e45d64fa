// Package ended has the records of ended jobs of the embedded engine (tube.Ended).
//
//   - memory.go: Memory, records in memory: all of them without a journal; with one, those that are not in the tables yet.
//   - bounds.go: which records go, so that those of a tube, and all together, stay within their bounds: the same for both.
//
// In the tables they are in package tables.
package ended
