package storetest

import (
	"bytes"

	"redstalk/storage"
	"redstalk/storage/body"
)

// bodies is the pool of Lend.
var bodies = body.NewPool()

// Lend moves the bodies of the puts among the operations into Buffers, as a listener of the
// server does.
func Lend(ops []storage.Op) {
	for i := range ops {
		op := &ops[i]
		if b := bodies.Get(len(op.Body)); op.Kind == storage.Put && b != nil {
			copy(b.Bytes(), op.Body)
			op.Body, op.Buffer = b.Bytes(), b
		}
	}
}

// Receive copies the body of an answer, and releases its Buffer at once, as a listener of the
// server does when it has sent its reply.
func Receive(a *storage.Answer) {
	if a.Buffer != nil {
		a.Body = bytes.Clone(a.Body)
		a.Buffer.Release()
		a.Buffer = nil
	}
}

// lent returns a copy of the operations, with lent bodies, for the store. So ops can be read
// while the store has the copy.
func lent(ops []storage.Op) []storage.Op {
	sent := append([]storage.Op(nil), ops...)
	Lend(sent)
	return sent
}

// receive copies the answers from the operations that lent returned.
func receive(ops, sent []storage.Op) {
	for i := range ops {
		ops[i].Answer = sent[i].Answer
		Receive(&ops[i].Answer)
	}
}
