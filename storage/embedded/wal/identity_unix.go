//go:build unix

package wal

import (
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// sameFile reports whether both are about the same file. It returns true if the file system
// does not say, such as one in memory.
func sameFile(a, b vfs.FileInfo) bool {
	x, xKnown := a.Sys().(*syscall.Stat_t)
	y, yKnown := b.Sys().(*syscall.Stat_t)
	return !xKnown || !yKnown || x.Dev == y.Dev && x.Ino == y.Ino
}

// unlinked reports whether an open directory has been removed, and not only renamed. info is
// what Stat of the open directory returns now.
func unlinked(info vfs.FileInfo) bool {
	s, known := info.Sys().(*syscall.Stat_t)
	return known && s.Nlink == 0
}
