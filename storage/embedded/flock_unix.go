//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package embedded

import (
	"errors"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/wal"
)

// flock locks a directory for this process until it is closed. In contrast to a lock on a
// file in the directory, this lock is not lost if somebody removes that file. If the file
// system does not support such locks, nothing is locked. If another process has called
// shareFlock, the error is ErrEnding.
func flock(d *wal.Directory) error {
	if d.Fd() == vfs.InvalidFd {
		return nil
	}
	fd := int(d.Fd())
	err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	if syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return ErrEnding
	}
	return err
}

// shareFlock makes flock fail with ErrEnding in other processes.
func shareFlock(d *wal.Directory) {
	if fd := d.Fd(); fd != vfs.InvalidFd {
		syscall.Flock(int(fd), syscall.LOCK_SH)
	}
}
