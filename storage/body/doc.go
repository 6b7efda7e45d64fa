// Package body is a reference-counted buffer pool for large bodies. Allocating, clearing
// and garbage-collecting this memory would cost more than all else that redstalk does
// with a body.
//
// # Where to read
//
//   - Buffer (buffer.go): the memory of one body, and its reference count.
//   - Pool (pool.go): where Buffers come from, and where their memory returns to. poison_on.go and
//     poison_off.go choose whether released memory is overwritten, see Tests.
//
// Small bodies have no Buffer: they are ordinary slices. The package does not know what
// is in a body, and imports no other package of redstalk.
//
// # Who owns a reference
//
// A body is a slice in a field named Body. The field Buffer beside it has the reference
// count; it is nil for a slice that was made in any other way. Get returns a Buffer with
// one reference. Passing a Buffer on passes the reference on, unless the caller calls
// Retain before. Each reference ends with one Release:
//
//   - a connection's protocol.Reader has one while it fills the Buffer;
//   - storage.Op has one, which belongs to the store from Do on;
//   - the tube.Machine has one while it has the body in memory;
//   - the journal has one for each large body in a group that is not written yet, and
//     one while it copies the body to the tables;
//   - each storage.Answer has one, which belongs to the caller from Done on;
//   - protocol.Writer and the wire have that one until the reply is sent.
//
// # Invariants
//
//   - A body does not change while anybody has a reference. It is filled before it is
//     passed on.
//   - A reference that is never released is no error, only slower: the garbage collector
//     then frees the memory, and the Pool allocates new memory. So an engine or a listener
//     can ignore Buffers.
//   - A Buffer is never reused, only its memory. So a Release too many does not free the
//     memory of another body. It must still not come before the last use.
//   - The lock of a Pool is taken last, and nothing is called while it is held.
//
// # Tests
//
// With the build tag poison, and with the race detector, every body has a Buffer, new
// ones are dirty, memory is overwritten at the last Release and not reused, and a Release
// too many panics. So a use after the release shows in the output.
package body
