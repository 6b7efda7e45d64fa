// Package body has the memory of large bodies, which is used again when nobody needs
// it any more. To allocate, clear and collect such memory costs Go more than all that
// redstalk does with a body.
//
// # What lives here
//
//   - Buffer (buffer.go): the memory of one body, and how many use it.
//   - Pool (pool.go): where Buffers come from, and where their memory goes back to.
//
// # What does not
//
// Small bodies, which have no Buffer: they are ordinary slices. And anything about
// what is in a body. The package imports nothing of ours.
//
// # Who uses a body
//
// A body is a slice in a field named Body. The field Buffer beside it counts who uses
// it; nil is right for a slice that was made in any other way. Get returns a Buffer
// with one use. Whoever hands a Buffer on hands on its use, unless it calls Retain
// before. Each use ends with one Release:
//
//   - a connection's protocol.Reader has one while it fills the Buffer;
//   - storage.Op has one, which is the store's from Do on;
//   - the tube.Machine has one as long as it keeps the body;
//   - the journal has one for each large body in a group that is not written yet, and
//     one while it copies the body to the tables;
//   - each storage.Answer has one, which is the caller's from Done on;
//   - protocol.Writer and the wire have that one until the reply is sent.
//
// # Invariants
//
//   - A body does not change while it is in use. It is filled before it is handed on.
//   - A use that is never released is no mistake, only slower: the garbage collector
//     then takes the memory, and the Pool makes anew what it lacks. So an engine or a
//     door may ignore Buffers.
//   - A Buffer is never used again, only its memory. So a Release too many frees
//     nothing that belongs to somebody else. It must not come before the last use all
//     the same.
//   - The lock of a Pool is taken last, and nothing is called while it is held.
//
// # Tests
//
// With the build tag poison, and with the race detector, every body has a Buffer, new
// ones are dirty, memory is overwritten at the last Release and not used again, and a
// Release too many panics. So a use after the release shows in what comes out.
package body
