//go:build !linux

package child

import "syscall"

// Freeze suspends the process until SIGCONT.
func (p *Process) Freeze() error { return p.Cmd.Process.Signal(syscall.SIGSTOP) }
