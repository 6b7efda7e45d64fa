//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package embedded

// lock does nothing: this system has no such locks.
func (d *directory) lock() error { return nil }

// shareLock does nothing.
func (d *directory) shareLock() {}
