// Package embedded is the engine that lives inside the process: a
// tube.Machine behind a lock.
//
// What lives here: the lock, the clock, and the translation of operations
// into calls of the Machine. What does not: the rules (package tube) and
// waiting (package server).
//
// The invariant: a batch is carried out under one hold of the lock, and no
// listener is called under it.
//
// Without a journal it keeps its jobs in memory only: they end with the
// process.
package embedded
