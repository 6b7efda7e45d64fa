//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package embedded

import (
	"errors"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lock takes the directory for this process, until it is closed: who locks it
// by the name of a file in it can be robbed of that. Where the file system
// knows no such locks, nothing is locked.
func (d *directory) lock() error {
	fd := d.file.Fd()
	if fd == vfs.InvalidFd {
		return nil
	}
	err := syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return err
	}
	return nil
}
