//go:build !linux

package redistest

import "net"

// madeBy cannot be told here, so nothing happens to parts of some processes.
func madeBy(net.Conn, []int) bool { return false }
