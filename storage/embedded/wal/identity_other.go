//go:build !unix

package wal

import "github.com/cockroachdb/pebble/v2/vfs"

// sameFile cannot tell here.
func sameFile(a, b vfs.FileInfo) bool { return true }

// Unlinked cannot tell here.
func Unlinked(vfs.FileInfo) bool { return false }
