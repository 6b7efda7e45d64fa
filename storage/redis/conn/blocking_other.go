//go:build !linux

package conn

import (
	"net"
	"syscall"
)

// unpoll returns c: on systems other than Linux the runtime's poller watches it.
func unpoll(c net.Conn) net.Conn { return c }

// isIdle returns true: on systems other than Linux a closed connection is noticed when it is
// used.
func isIdle(syscall.Conn) bool { return true }
