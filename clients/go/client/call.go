package client

import (
	"sync"
	"time"
)

// A call is a command on its way, and then its reply.
type call struct {
	line []byte        // with CR LF
	body []byte        // nil: the command has none
	tube string        // the tube to use first; empty: any
	wait time.Duration // how long a reserve can wait at the server
	kind kind

	reply Reply
	err   error
	done  chan struct{} // capacity 1; receives when reply and err are set
}

// A kind says what a refusal of the command means for the connection.
type kind uint8

const (
	ordinary kind = iota
	useTube       // the next puts would go into another tube
	plainPut      // a put without tags: the server takes its body for commands
)

var calls = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

// newCall returns a call whose line is empty.
func newCall() *call { return calls.Get().(*call) }

// lineCall returns a call of a command without a body. The line has no CR LF.
func lineCall(line string) *call {
	c := newCall()
	c.line = append(append(c.line, line...), "\r\n"...)
	return c
}

// free gives back a call that is done, or was never sent. The body of its reply stays valid.
func (c *call) free() {
	line, done := c.line[:0], c.done
	*c = call{line: line, done: done}
	calls.Put(c)
}
