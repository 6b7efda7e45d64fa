//go:build unix

package beanstalkd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Lock takes the lock of a beanstalkd directory, which no beanstalkd can then take until it is
// closed, or any other file that this process opened for that lock is: so keep it behind the last
// Log.Close. It is nil if no beanstalkd ever ran there. If one is running, the error is ErrLocked.
func Lock(dir string) (*os.File, error) { return lock(filepath.Join(dir, "lock")) }

// lock takes the lock of a directory: no beanstalkd can take it until it is closed. It returns
// nil if there is no lock file, because then no beanstalkd ever ran there.
func lock(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	// A read lock is enough: beanstalkd takes a write lock.
	err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_RDLCK})
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		err = ErrLocked
	case err != nil:
		err = fmt.Errorf("locking %s: %w", path, err)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
