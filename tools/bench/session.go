package main

import "redstalk/protocol/client"

// A stage is one write of a connection and the replies it waits for. The bytes
// belong to the session, and do not change until its next stage.
type stage struct {
	out     []byte
	replies int
	timed   bool // whether the time to the last reply counts as a latency
}

// A status is whether a session has something to send.
type status uint8

const (
	sends status = iota
	waits        // nothing yet: call next again within a millisecond
	done         // nothing more
)

// A session is the state machine of one connection, without I/O: the driver sends
// its stages and passes it the replies, in order. Times are in nanoseconds since
// the run's start. A session belongs to one goroutine.
type session interface {
	next(now int64) (stage, status)
	replied(reply *client.Reply, now int64)
}

const reserveCommand = "reserve\r\n"

// longTTR, in seconds, is much longer than any stage: a job becomes ready again only if its
// connection ends.
const longTTR = 120

// appendPut appends a put of body with a delay in seconds and the long TTR.
func appendPut(out []byte, delay int, body []byte) []byte {
	return client.AppendPut(out, 0, delay, longTTR, body)
}

// makeBody returns a body of n printable bytes.
func makeBody(n int) []byte {
	body := make([]byte, n)
	for i := range body {
		body[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[i%36]
	}
	return body
}
