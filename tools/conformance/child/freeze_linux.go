package child

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Freeze suspends the process until SIGCONT. It returns when all threads have stopped, which they do some time after
// SIGSTOP, on a busy machine.
func (p *Process) Freeze() error {
	if err := p.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stopping %s: %w", p.Cmd.Path, err)
	}
	for {
		err := unix.Waitid(unix.P_PID, p.Pid(), nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
