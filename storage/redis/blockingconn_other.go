//go:build !linux

package redis

import (
	"net"
	"syscall"
)

// unpoll returns c: on systems other than Linux the runtime's poller watches it.
func takeOut(c net.Conn) net.Conn { return c }

// isIdle returns true: on systems other than Linux a closed connection is noticed when it is
// used.
func isQuiet(syscall.Conn) bool { return true }
