//go:build !linux

package server

import (
	"os"
	"runtime"
)

// uname tells what Go knows of the machine.
func uname() machine {
	name, _ := os.Hostname() // "" if it has none
	return machine{name, runtime.GOOS, runtime.GOARCH}
}
