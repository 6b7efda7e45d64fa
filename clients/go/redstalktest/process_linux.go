package redstalktest

import (
	"os"
	"syscall"
	"unsafe"
)

// dieWithParent ends the server also if the test is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStopped waits until all threads of a process have stopped, which they do some time after SIGSTOP.
func awaitStopped(pid int) error {
	const byPID, stopped, noWait = 1, 2, 0x1000000 // P_PID, WSTOPPED, WNOWAIT
	var info [128]byte                             // a siginfo_t
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), stopped|noWait, 0, 0)
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return os.NewSyscallError("waitid", errno)
		}
	}
}
