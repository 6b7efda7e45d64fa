//go:build unix

package access

import (
	"os"
	"syscall"
)

// inode tells one file from another that has taken its place.
func inode(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino)
	}
	return 0
}
