// Package embedded is the engine that lives inside the process: a
// tube.Machine, which decides everything and holds the index of all jobs in
// memory, and a journal in Pebble that can bring it back.
//
// # What lives here
//
//   - Engine: the lock around the Machine, the clock, and the translation of
//     operations into calls.
//   - journal: what the Machine says has changed, as records in a group; the
//     committer, which writes one group while the next one fills; reading
//     bodies that are no longer in memory.
//   - Open: bringing the Machine back from the records, and telling a broken
//     or foreign directory from a good one.
//   - lazyFS: when the operating system is told to sync.
//   - guard: how much room the disk has left.
//
// What does not: the rules (package tube) and waiting (package server).
// Without a journal (NewMemory) it is the same engine, and the jobs end with
// the process.
//
// # What is promised
//
// No reply leaves before every change that it could show or rest on is
// written: a batch is done when the group that was filling when it was carried
// out has been committed. What committed means is the operator's choice:
//
//   - SyncEvery 0: the change is on the disk. It outlives the process and the
//     machine.
//   - SyncEvery d: the change is with the operating system, which writes it to
//     the disk within d, by a timer. It outlives the process; of the last d a
//     machine that loses power may lose changes.
//   - SyncEvery < 0: the same, but the operating system decides when.
//
// Everything survives but reservations, see package tube. Time goes on while
// the process is down: a delay that is over by then is over.
//
// # Invariants
//
// A batch is carried out under one hold of the lock, and no listener is called
// under it. Groups are committed in the order in which they were filled. A
// body that is not in memory is in a committed group. When a write or a sync
// fails the process ends (Options.Fatal) rather than let a reply out: what is
// on disk then is not known, and only the next start can find out.
package embedded
