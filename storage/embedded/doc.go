// Package embedded is the engine inside the process: a tube.Machine, which decides everything
// and holds the index of all jobs in memory, and a journal, from which it can be restored.
//
// # Where to find what
//
// Read the files in this order:
//
//   - options.go: what can be chosen. engine.go: Engine, the lock around the Machine, and Do. clock.go: the
//     clocks. apply.go, manyjobs.go, groups.go, records.go (schedules and job batches), schedules.go, batches.go, holders.go and import.go
//     carry out the operations. tick.go does what is due, and returns memory to the
//     operating system.
//   - task.go: a task is a batch that is carried out in parts, or that waits. The worker, a
//     goroutine that exists while there are tasks, does a part of each in turn. longwork.go
//     adapts the size of a part, and lets other goroutines run in between.
//   - journal.go: the journal. It records each change of the Machine as an entry (changes.go) in
//     a commit (frames.go). A commit becomes one frame of the log (package wal) or, if it is large,
//     several. commit.go says who writes it, and when batches are done.
//   - pressure.go: who waits when changes come faster than the disk takes them.
//   - window.go: a window is the jobs that have changed in some segments of the log, and when it
//     ends. checkpoint.go: the checkpointer writes windows to the tables (writewindow.go, package
//     tables), where jobs are once the log that recorded them is used again.
//   - cold.go: jobs that are in the tables only, and how they get back; coldneeds.go: operations that wait for them; cooling.go: ready jobs become cold.
//   - deadletters.go: the sender, a goroutine that moves jobs to their dead-letter tubes whose
//     bodies are only in the tables. Until then such a job is a pending dead letter: buried,
//     with a mark.
//   - fetch.go: reading a body for an answer. loadbodies.go: reading bodies that an operation
//     needs to go on. A job whose body is damaged is buried when it would be reserved. If a body cannot be read
//     for another reason, its job stays where it is.
//   - ended.go: records of ended jobs, and waits for them; ended_stored.go: what the tables have of them, and package ended.
//   - jobcheckpoints.go: the checkpoints that workers save of their jobs.
//   - open.go, load.go, history.go, images.go: Open restores the Machine from tables and log,
//     and refuses a damaged or foreign directory.
//   - guard.go: how much space the disk has left, and whether puts are refused. spare.go: a file that makes
//     room for a start on a full disk.
//   - foreign.go: which directories are refused. directory.go, flock_unix.go, ownerfs.go: locking the directory
//     for this process, noticing that it was
//     removed or replaced, and creating files for their owner only.
//   - backup.go, copier.go, manifest.go: writing a backup of an engine in use. restore.go: Restore and
//     VerifyBackup. target.go: a directory that gets its name when it is complete.
//   - fsck.go: Fsck, which checks and repairs the directory of an engine that is not open.
//   - metrics.go: counters. tallies.go: what happened in hours and days.
//
// The rules are in package tube, and waiting for jobs is in package server/queue. Without a
// journal (NewMemory) it is the same engine, and the jobs end with the process.
//
// # Log and tables
//
// A change is first an entry in the log. Some segments of the log form a window. The jobs that
// have changed in it are written to the tables as they are at that time, and then its segments
// are used again. Changes after the window are in a later segment as well. So replaying the log
// over the tables gives the right result, even if a checkpoint was only partly done.
//
// A job that is deleted before its window is written never gets to the tables. In a queue that
// keeps up, these are nearly all jobs, because windows are held back: a window has twice as many
// bytes of bodies as are in memory, up to about 32 MiB, and it is written when the next one ends.
// The bodies of a window have to be in memory until it is written. So windows are written at once
// while there are more than 32 MiB of bodies in memory beyond those that are kept there anyway,
// or while the disk is nearly full. All windows are written if no segment has ended for 5 s.
//
// # The commit that polls before it syncs
//
// A caller of Do that has changed something commits it, if no commit is in progress: it writes
// the commit, syncs the log, and ends the batches, all on its own goroutine. So a durable reply
// costs one write and one sync, and no goroutine has to be woken.
//
// One part of this flow is not visible in the code of this package: before the sync, the commit
// calls back into its caller (DoPolling). That is the event loop of the server. It sends the
// replies that do not wait for the sync, polls its sockets, and calls Do with the commands that
// have arrived. Their changes are written too, and the same sync makes them durable. The commit
// polls up to 4 times, as long as each call brings at least 3 batches. docs/architecture.md draws
// it.
//
// Other changes made meanwhile fill the next commit. A committer, one of two goroutines of the
// journal, carries out that one, and all of more than 1 MiB. While such a commit is synced, the
// other committer writes the next one.
//
// # Who needs a body
//
// A body is given to the engine with a put, and from then on belongs to its job. Only these also
// need it:
//
//   - An answer (storage.Answer.Body), until Done of its batch has returned.
//   - The commit with the put, if the body is not copied (largeBody in frames.go): until the commit
//     is written and write (commit.go) calls releaseBodies.
//   - The checkpointer, while it writes the job to an ingest file (jobNow in writewindow.go): the
//     job may be deleted meanwhile.
//
// A window has only ids, no bodies.
//
// Puts wait, as tasks, while 64 MiB of bodies wait to be written, or while 256 MiB more bodies
// than are kept anyway wait for the tables. Nothing else waits then. Tasks wait while a commit of
// more than 1 MiB waits to be written.
//
// # What is promised
//
// A change is durable when it is as safe as the operator has asked for:
//
//   - SyncEvery 0: it is on the disk. It survives a crash of the process and of the machine.
//   - SyncEvery d: it is with the operating system, and a timer syncs it to the disk within d. It
//     survives a crash of the process. A machine that loses power can lose the changes of the
//     last d.
//   - SyncEvery < 0: it is with the operating system, which decides when it gets to the disk.
//
// A batch is done when everything that its answers show or depend on is durable.
//
// There is one exception. A reply to a reserve waits for the job to be durable, but not for the
// updated counter of reserves: for that it only waits until the counter is with the operating
// system. The counter is synced with the next change of any other kind, and within 10 ms. If the
// machine loses power before that, the counter is too low by one. The reservation itself does not
// survive a restart anyway.
//
// Package tube says what else survives. Time goes on while the process is down: a delay that is
// over by then is over. All instants on the disk are wall times.
//
// # What others can do to the directory
//
// Somebody can remove, rename or replace the directory, the current segment of the log or the
// tables. The next start would not find what is written after that. So the process ends
// (Options.Fatal, with ErrGone). This is checked before changes are written, unless it was
// checked less than 10 ms ago; before a segment is begun; before a window is written; and at
// least twice a second. What is acknowledged within these 10 ms is where the files are: in a
// directory that was renamed, or nowhere.
//
// Writing the tables can fail: for lack of space, for lack of a permission, or because their
// directory was renamed and may come back. It is retried until it succeeds, and the log keeps what
// the tables lack. Once more than maxBehind windows wait for them, or too many bodies, puts are
// answered with ErrNoSpace, and everything else goes on. The log grows then, until the disk is
// full. If the log cannot be written, the process ends. Bodies that are only in the tables cannot
// be read while the tables are missing. While the tables are merely slow, calls wait for them.
//
// # Invariants
//
//   - A batch is carried out under one hold of the lock, unless it becomes a task. The listener
//     is never called under the lock.
//   - Under one hold of the lock at most partWork jobs are moved, beyond one for each operation.
//     Tasks and ticks move fewer where that takes longer than holdTime.
//   - A batch that is no task, and each part of a task, is in one frame, unless it is larger than
//     1 GiB. So after a power cut either all of it or nothing is there.
//   - Commits are written one at a time, in the order in which they were filled. A commit is durable
//     only if all commits before it are.
//   - Everything in a segment is in the tables before the segment is released.
//   - A body that is not in memory is in the tables.
//   - If a write or a sync of the log fails, the process ends (Options.Fatal), and no batch is
//     done: only the next start can find out what is on the disk.
package embedded
