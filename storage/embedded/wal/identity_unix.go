//go:build unix

package wal

import (
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// sameFile tells whether both are of one file, as far as its file system says
// which is which. One in memory does not.
func sameFile(a, b vfs.FileInfo) bool {
	x, xKnown := a.Sys().(*syscall.Stat_t)
	y, yKnown := b.Sys().(*syscall.Stat_t)
	return !xKnown || !yKnown || x.Dev == y.Dev && x.Ino == y.Ino
}

// Unlinked tells whether a directory that is open has been removed, and not
// only renamed. info is what its Stat has said since.
func Unlinked(info vfs.FileInfo) bool {
	s, known := info.Sys().(*syscall.Stat_t)
	return known && s.Nlink == 0
}
