package server

import (
	"errors"
	"io"
	"net"
)

// wire is the bytes of one connection as its session sees them. No method
// blocks. Whenever something may have changed (bytes or the end have come, what
// was kept back is sent) the wire wakes its session.
//
// All methods belong to the goroutine that runs the session.
type wire interface {
	// Read reads what has come. It returns errNothing if nothing has.
	io.Reader

	// Write takes all of p. What cannot be sent at once is kept back.
	io.Writer

	// More tells whether another Read may find something before the session
	// is woken again.
	More() bool

	// Kept is how many bytes are kept back; 0 after an error, which the next
	// Write returns.
	PendingBytes() int

	// Push sends at once what was written and waits to be sent with the replies of
	// others, and returns what Kept does then.
	Push() int

	// Drained is how many bytes were kept back and sent later, up to now.
	Drained() uint64

	// Hand has the batch carried out by the store soon, and not within this
	// call.
	submitter

	// Again wakes the session once more when others have had their turn.
	Again()

	// Delivered throws away what has come, and tells whether all that was
	// written has arrived, or never will. It wakes nobody when that changes.
	Delivered() bool

	// Close ends the connection. What is kept back is lost, and what has not
	// arrived may be.
	Close()

	// Cut makes every later Read and Write fail, and wakes the session.
	// Unlike Close it leaves the ending to the session.
	Cut()
}

// errNothing is returned by a wire's Read when nothing has come.
var errNothing = errors.New("nothing has come")

// errCut is returned by a wire that was cut.
var errCut = errors.New("the connection was cut")

// newWire makes a wire of a connection: one of a loop's, if conn has a file
// descriptor that a loop can watch, else one with goroutines of its own. conn
// must not be used any more. wake is called with whatever takes the session's
// batches to the store: the turn of a loop, one of the wire's own, or the wire.
func (s *Server) newWire(conn net.Conn, wake func(submitter)) wire {
	if sc, ok := conn.(*secureConn); ok {
		if w := s.loops.adoptSecure(sc, wake); w != nil {
			return w
		}
	} else if w := s.loops.adopt(conn, wake); w != nil {
		return w
	}
	return newPump(conn, s.queue, wake)
}
