//go:build unix

package access

import (
	"os"
	"syscall"
)

// inode tells one file from another that has taken its place.
func inode(info os.FileInfo) uint64 {
	if s, is := info.Sys().(*syscall.Stat_t); is {
		return uint64(s.Ino)
	}
	return 0
}
