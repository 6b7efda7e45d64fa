//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package embedded

import (
	"errors"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lock locks the directory for this process, until it is closed. A lock on a file in it
// would be lost if somebody removed that file. If the file system knows no such locks,
// nothing is locked. If another process shares its lock, the error is ErrEnding.
func (d *directory) lock() error {
	fd := int(d.file.Fd())
	if d.file.Fd() == vfs.InvalidFd {
		return nil
	}
	err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	if syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return ErrEnding
	}
	return err
}

// shareLock makes lock of other processes fail with ErrEnding.
func (d *directory) shareLock() {
	if fd := d.file.Fd(); fd != vfs.InvalidFd {
		syscall.Flock(int(fd), syscall.LOCK_SH)
	}
}
