// Package tally records what happens in the tubes of a store, in its tallies of hours and days.
//
// A Recorder (recorder.go) looks every few seconds at what the store has counted since the process began, and adds by how much that
// has grown to the tallies. So no job is delayed by it, and several servers on a store add up. A process that is killed loses what
// came after the last time.
package tally
