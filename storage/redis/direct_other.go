//go:build !linux

package redis

import (
	"net"
	"syscall"
)

// takeOut returns c: elsewhere than on Linux the runtime's poller watches it.
func takeOut(c net.Conn) net.Conn { return c }

// isQuiet returns whether a connection is open, and nothing has come by it, as far as
// that can be known: elsewhere than on Linux that is found out by using it.
func isQuiet(syscall.Conn) bool { return true }
