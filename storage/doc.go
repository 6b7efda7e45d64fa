// Package storage is the contract between the server and its engines: operations as
// values, their answers, and what a store reports to its server. It contains no engine and
// no rule: the rules behind the operations are in package tube.
//
// # Where to read
//
//   - storage.go: Store, the interface of an engine; Listener, which receives its wake-ups;
//     the errors.
//   - op.go: Batch and Op, the operations and their answers. kind.go: the table of the kinds of operations.
//   - report.go, topology.go and peers.go: what a store can count, and what it knows of other processes.
//   - import.go: importing the jobs of another server. backup.go: writing a backup of the store.
//
// # The contract of a store
//
// An operation is a value (Op). A connection submits all operations that it has read so far as
// one Batch. A store can join the batches of all connections and carry them out together.
//
// Within a batch the operations take effect in order, and no other batch comes between them,
// with these exceptions:
//
//   - Before a ReleaseAll, and before a Put that has to wait for room.
//   - In the middle of a long Kick, ReleaseAll, Ref or DueRecords, and before any other operation that
//     needs much work.
//   - In a store that is divided into parts: where the operations of a batch continue in
//     another part.
//
// When the Done of a batch is called, every change that was answered without an error is as
// durable as the store promises. The documentation of each engine says how durable that is.
//
// Nothing waits for jobs in a store. A Take answers that there is no job; waiting for one is
// done by the server. Listener.WakeUp is the wake-up: it says that it may be worth trying again.
// Wake-ups can be merged, and can be spurious. None is lost between a Take with Wait set that
// found nothing and the next Take of the same server, unless the store fails. A server still
// tries again from time to time.
//
// Time belongs to the store. Tick does what is due, and returns when to call it again.
//
// # Who owns what
//
//   - The slice passed to Do belongs to the caller. The batches in it, with all that they point
//     to, belong to the store from Do until their Done.
//   - The store can keep the strings in an Op after that.
//   - The store can keep Op.Body too. It must not change until the store has released
//     Op.Buffer; if that is nil, it must never change. The store need not release Op.Buffer.
//   - Op.Tubes is only read until Done.
//   - Answers belong to the caller from Done on. Answer.Body can still be the store's own
//     memory: it must never be changed. It stays valid until the caller releases
//     Answer.Buffer; if that is nil, or never released, forever.
//
// # Adding an operation
//
// Add a Kind. Say in its comment which fields of Op it reads and which of Answer it sets.
// Add a test to the suite in storetest, which every engine passes, and implement it in every
// engine. A command that only moves a job needs no Kind: see package tube.
package storage
