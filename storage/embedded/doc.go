// Package embedded is the engine that lives inside the process: a tube.Machine, which
// decides everything and holds the index of all jobs in memory, and a journal that can
// bring it back.
//
// # What lives here
//
//   - Engine (engine.go, tick.go, apply.go): the lock around the Machine, the clock, and
//     the operations.
//   - task (task.go): a batch that is carried out in parts, or that waits. The worker, a
//     goroutine that exists while there are tasks, does a part of each in turn.
//   - journal: what the Machine says has changed (changes.go), as entries (entry.go) in a
//     group (group.go). A group becomes one frame of the log (package wal) or, if it is
//     large, several. commit.go says who writes it, and when batches are done.
//   - pressure.go: who waits when changes come faster than the disk takes them.
//   - tables (tables.go): where jobs are once the log that tells about them is used again,
//     in Pebble. A checkpoint (checkpoint.go) writes a window (window.go), the jobs that
//     have changed in some segments of the log, to ingest files (migrate.go, ingest.go),
//     which Pebble takes over. hold.go says when.
//   - ownerfs.go: the file system, on which all that the engine makes is for its owner only.
//   - deadletters.go: the sender, a goroutine that sends jobs to their dead-letter tubes whose
//     bodies are in the tables only. Until then such a job is buried, with a mark.
//   - loadbodies.go: an operation waits until the bodies of some jobs are in memory.
//   - fetch.go, bodies.go: reading bodies that are in the tables, but not in memory. A job
//     whose body cannot be read is buried when it would be reserved.
//   - Open (open.go, load.go, history.go): bringing the Machine back from tables and log,
//     and telling a broken or foreign directory from a good one.
//   - guard: how much room the disk has left, and whether puts are refused.
//   - directory and ownership: keeping the directory for this process, and noticing when
//     it is not the engine's any more.
//   - quiet: when memory is given back to the operating system.
//
// What does not live here: the rules (package tube) and waiting for jobs (package server).
// Without a journal (NewMemory) it is the same engine, and the jobs end with the process.
//
// # Log and tables
//
// A change is an entry in the log first. Some segments of the log are a window. The jobs
// that have changed in it are written to the tables, as they are at that time, and then its
// segments are used again. What has changed after the window is in a later segment as well.
// So replaying the log over the tables gives the right result, however far a checkpoint had
// got.
//
// A job that is gone when its window is written never gets to the tables. In a queue that
// keeps up, these are nearly all jobs, because windows are held back: one has twice as many
// bytes of bodies as are in memory, up to about 32 MiB, and it is written when the next one
// ends. The bodies of a
// window have to be in memory until it is written. So windows are written at once while
// there are more than 32 MiB of bodies in memory beyond those that are kept there anyway,
// or while the disk is nearly full; and all that there are, if no segment has ended for 5 s.
//
// # Who writes
//
// A caller of Do that has changed something commits it, if nobody else is committing: it
// writes the group, syncs the log, and ends the batches, all on its own goroutine. So a
// durable reply costs one write and one sync, and no goroutine has to be woken. Before the
// sync it asks its caller for more, and the sync serves that as well (DoGathering). What
// others change meanwhile fills the next group. A committer, one of two goroutines of the
// journal, commits that one, and all groups of more than 1 MiB. While such a group is
// synced, the other committer writes the next one.
//
// # Who needs a body
//
// A body is given to the engine with a put, and belongs to its job from then on. Beside the
// job, these need it, and nobody else:
//
//   - An answer (storage.Answer.Body), until Done of its batch has returned.
//   - The group with the put, if the body is not copied (largeBody in group.go): until the
//     group is written and write (commit.go) calls releaseBodies.
//   - The checkpointer, while it writes the job to an ingest file (jobNow in migrate.go):
//     the job may be deleted meanwhile.
//
// A window has no bodies, only ids.
//
// Puts wait, as tasks, while 64 MiB of bodies wait to be written, or while 256 MiB more
// bodies than are kept anyway wait for the tables. Nobody else waits then. Tasks wait while
// a group of more than 1 MiB waits to be written.
//
// # What is promised
//
// A change is durable when it is as safe as the operator has asked for:
//
//   - SyncEvery 0: it is on the disk. It outlives the process and the machine.
//   - SyncEvery d: it is with the operating system, and a timer syncs it to the disk within
//     d. It outlives the process. A machine that loses power may lose the changes of the
//     last d.
//   - SyncEvery < 0: it is with the operating system, which decides when it gets to the
//     disk.
//
// A batch is done when everything that its answers could show or rest on is durable.
//
// There is one exception. A reply to a reserve waits for the job to be durable, but not for
// the updated counter of reserves: for that it only waits until it is with the operating
// system. The counter is synced with the next change of any other kind, and within 10 ms.
// If the machine loses power before that, the counter is too low by one. The reservation
// itself does not survive a restart anyway.
//
// What else survives is said in package tube. Time goes on while the process is down: a
// delay that is over by then is over.
//
// # What others may do to the directory
//
// The directory, the current segment of the log and the tables may be removed, renamed, or
// replaced. The next start would not find what is written after that. So the process ends
// (Options.Fatal, with ErrGone). This is checked before changes are written, unless that
// was done less than 10 ms ago; before a segment is begun; before a window is written; and
// twice a second anyway. What is acknowledged within these 10 ms is where the files are: in
// a directory that was renamed, or nowhere.
//
// Tables may become impossible to write: for want of room, or of a right, or because their
// directory was renamed and may come back. They are tried again until they can be written,
// and the log keeps what they lack. Once more than maxBehind windows wait for them, or too
// many bodies, puts are answered ErrNoSpace, and everything else goes on. The log grows
// then, up to the end of the disk. When the log cannot be written the process ends. Bodies
// that are only in the tables cannot be read while the tables are not there. While the
// tables are merely slow, calls wait for them.
//
// # Invariants
//
//   - A batch is carried out under one hold of the lock, unless it becomes a task. The
//     listener is never called under the lock.
//   - Under one hold of the lock at most partWork jobs are moved, beyond one for each
//     operation. Tasks and ticks move fewer where that takes longer than holdTime.
//   - A batch that is no task, and each part of a task, is in one frame, if it is not larger
//     than 1 GiB. So a power cut leaves all of it or nothing.
//   - Groups are written one at a time, in the order in which they were filled. A group is
//     durable only if all groups before it are.
//   - All that a segment says is in the tables before the segment is released.
//   - A body that is not in memory is in the tables.
//   - When a write or a sync of the log fails, the process ends (Options.Fatal), and no
//     batch is done: what is on the disk is not known, and only the next start can find out.
package embedded
