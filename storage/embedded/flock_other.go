//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package embedded

import "redstalk/storage/embedded/wal"

// flock does nothing: this system has no locks on directories.
func flock(*wal.Directory) error { return nil }

// shareFlock does nothing.
func shareFlock(*wal.Directory) {}
