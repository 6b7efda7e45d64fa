//go:build unix

package access

import (
	"os"
	"syscall"
)

// inode returns a number that distinguishes a file from another one that has replaced it.
func inode(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino)
	}
	return 0
}
