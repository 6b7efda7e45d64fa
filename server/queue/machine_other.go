//go:build !linux

package queue

import (
	"os"
	"runtime"
)

// uname returns what Go knows about the machine.
func uname() Machine {
	name, _ := os.Hostname() // "" if it has none
	return Machine{name, runtime.GOOS, runtime.GOARCH}
}
