//go:build !unix

package wal

import "github.com/cockroachdb/pebble/v2/vfs"

// sameFile returns true: this system does not say.
func sameFile(a, b vfs.FileInfo) bool { return true }

// unlinked returns false: this system does not say.
func unlinked(vfs.FileInfo) bool { return false }
