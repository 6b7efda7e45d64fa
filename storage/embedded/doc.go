// Package embedded is the engine that lives inside the process: a
// tube.Machine, which decides everything and holds the index of all jobs in
// memory, and a journal that can bring it back.
//
// # What lives here
//
//   - Engine: the lock around the Machine, the clock, and the translation of
//     operations into calls.
//   - task: a batch that is carried out in parts, or waits for room. The worker, a
//     goroutine that is there while there are any, does a part of each in turn.
//   - journal: what the Machine says has changed, as entries in a group, which
//     becomes one frame of the log (package wal) or, if there is much, several;
//     who writes it, and when the batches that wait for it are done.
//   - window: which jobs have changed since a segment of the log began.
//   - tables: where jobs are once the log that tells of them is to be used
//     again, in Pebble; the checkpoint has window after window taken over there,
//     as files that it writes itself (draft).
//   - fetch: reading bodies that are in the tables but no longer in memory. A job
//     whose body cannot be read is buried when it is to be reserved.
//   - quiet: when memory is given back to the operating system.
//   - Open: bringing the Machine back from tables and log, and telling a broken
//     or foreign directory from a good one.
//   - guard: how much room the disk has left, and whether puts are refused.
//   - directory: keeping the directory for this process, and noticing when it is
//     not its own any more.
//
// What does not: the rules (package tube) and waiting (package server).
// Without a journal (NewMemory) it is the same engine, and the jobs end with
// the process.
//
// # Log and tables
//
// A change is an entry in the log first. When a segment of the log is full, the
// jobs that have changed in it are written to the tables as they are by then,
// and the segment is used again. A job that came and went within a segment never
// gets to the tables at all, which is what happens to most jobs of a queue that
// keeps up; and whatever was changed after the segment is in a later one as
// well, so that replaying the log over the tables comes out right however far
// the checkpoint had got.
//
// # Who writes
//
// A call of Do leads if nobody else does: it writes what it has changed, has
// the disk sync it, and ends the batches, all on the caller's goroutine. A
// durable reply so costs one write and one sync, and wakes nobody. Before the
// sync it asks its caller for more, which that serves as well (DoGathering).
// What other callers change meanwhile fills the next group, which the follower
// writes, as it does groups of more than a MiB. While 64 MiB of bodies wait to be
// written, or 256 MiB more than are to be kept wait for the tables, further puts
// wait as tasks; nobody else does.
//
// # What is promised
//
// No reply leaves before every change that it could show or rest on is as safe
// as the operator has asked for:
//
//   - SyncEvery 0: it is on the disk. It outlives the process and the machine.
//   - SyncEvery d: it is with the operating system, which has written it to
//     the disk within d, by a timer. It outlives the process; of the last d a
//     machine that loses power may lose changes.
//   - SyncEvery < 0: the same, but the operating system decides when.
//
// There is one exception. A reservation does not survive a restart, so the
// reply to a reserve waits until its trace, the counter of reserves, is with the
// operating system, and not for the disk; it does wait for the put of the job.
// The trace is on the disk with the next change of any other kind, and within
// 10 ms. If the machine loses power before that, the counter is short by one.
//
// Everything else survives, see package tube. Time goes on while the process is
// down: a delay that is over by then is over.
//
// # What others may do to the directory
//
// The directory may be removed, renamed, or replaced by another one, and so may
// the current segment of the log and the tables. What is written then would not
// be found by the next start, and so the process ends (Options.Fatal, ErrGone).
// Before changes are written it is checked that all is in its place, unless that
// was done less than 10 ms ago; so it is before a segment is begun, before a
// window is written, and every half a second. What is acknowledged within these
// 10 ms is where the files are: with a directory that was renamed, or nowhere.
//
// Tables that cannot be written (no room, no right, a directory that was renamed
// and may come back) are tried again until they can. The log keeps what they
// lack. Once they are maxBehind windows behind, puts are answered ErrNoSpace, and
// everything else goes on. For that the log grows, up to the end of the disk;
// when the log cannot be written the process ends. Bodies that are in the tables
// only cannot be read while these are not there. While the tables are merely
// slow, calls wait for them.
//
// # Invariants
//
// A batch is carried out under one hold of the lock, unless it is a task, and no
// listener is called under it. Under one hold no more than partWork jobs are
// moved beyond one for each operation. Of a batch that is no task, and of each
// part of one that is, a power cut leaves all or nothing, up to 1 GiB: it is in
// one frame. Groups are written in the order in which they were filled, one at a
// time. Everything that a segment says is in the tables before the segment is
// given up. A body that is not in memory is in the tables. When a write or a
// sync fails the process ends (Options.Fatal) rather than let a reply out: what
// is on disk then is not known, and only the next start can find out.
package embedded
