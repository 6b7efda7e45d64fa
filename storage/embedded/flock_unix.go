//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package embedded

import (
	"errors"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lock locks the directory for this process, until it is closed. A lock on a file in it
// would be lost if somebody removed that file. If the file system knows no such locks,
// nothing is locked.
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
