package storetest

import (
	"bytes"

	"redstalk/storage"
	"redstalk/storage/body"
)

// bodies has the memory that Lend gives out.
var bodies = body.NewPool()

// Lend gives the puts among the operations copies of their bodies in Buffers, as a door
// does.
func Lend(ops []storage.Op) {
	for i := range ops {
		op := &ops[i]
		if b := bodies.Get(len(op.Body)); op.Kind == storage.Put && b != nil {
			copy(b.Bytes(), op.Body)
			op.Body, op.Buffer = b.Bytes(), b
		}
	}
}

// Receive copies the body of an answer, and releases its Buffer at once, as a door does
// that has sent its reply.
func Receive(a *storage.Answer) {
	if a.Buffer != nil {
		a.Body = bytes.Clone(a.Body)
		a.Buffer.Release()
		a.Buffer = nil
	}
}

// lent returns a copy of the operations to be handed over, with lent bodies. So ops can be
// read while the store has the copy.
func lent(ops []storage.Op) []storage.Op {
	given := append([]storage.Op(nil), ops...)
	Lend(given)
	return given
}

// receive copies the answers of the operations that lent returned.
func receive(ops, given []storage.Op) {
	for i := range ops {
		ops[i].Answer = given[i].Answer
		Receive(&ops[i].Answer)
	}
}
