package netpoll

import (
	"net"
	"testing"
	"testing/synctest"
)

// slowCloseConn is a connection on which bytes come until it is closed, and which is slow to
// close.
type slowCloseConn struct {
	net.Conn
	closed chan struct{}
}

func (c *slowCloseConn) Read(p []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
		return 1, nil
	}
}

func (c *slowCloseConn) Close() error {
	synctest.Wait()
	close(c.closed)
	return nil
}

// TestPumpEnds: bytes that come while a connection is closed do not keep its reading goroutine
// alive. If they did, the synctest bubble would not end.
func TestPumpEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPump(&slowCloseConn{closed: make(chan struct{})}, nil, func(Submitter) {})
		synctest.Wait()
		p.Close()
	})
}
