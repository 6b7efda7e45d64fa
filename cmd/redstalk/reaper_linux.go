package main

import (
	"encoding/binary"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reaper waits for the processes that commands leave behind. They become children of process 1, which
// in a container is redstalk itself; without a reaper each of them stays as a zombie. A nil reaper
// only starts commands.
type reaper struct {
	mu       sync.Mutex
	commands map[int]bool // by process id; only exec.Cmd waits for them
	wake     chan os.Signal
}

// newReaper returns a reaper that works until stop is called. It is nil unless this process is process 1.
func newReaper() (r *reaper, stop func()) {
	if os.Getpid() != 1 {
		return nil, func() {}
	}
	r = &reaper{commands: map[int]bool{}, wake: make(chan os.Signal, 1)}
	signal.Notify(r.wake, syscall.SIGCHLD)
	go func() {
		for range r.wake {
			for r.reapOne() {
			}
		}
	}()
	return r, func() { signal.Stop(r.wake) }
}

// start starts a command, whose end only wait sees.
func (r *reaper) start(cmd *exec.Cmd) error {
	if r == nil {
		return cmd.Start()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := cmd.Start()
	if err == nil {
		r.commands[cmd.Process.Pid] = true
	}
	return err
}

// wait waits for a command.
func (r *reaper) wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	if r == nil {
		return err
	}
	r.mu.Lock()
	delete(r.commands, cmd.Process.Pid)
	r.mu.Unlock()
	select {
	case r.wake <- syscall.SIGCHLD: // reapOne may have stopped at this command
	default:
	}
	return err
}

// reapOne reaps a child that has ended. It reports false if there is none, or if the next one is a command.
func (r *reaper) reapOne() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := endedChild()
	if err != nil || pid == 0 || r.commands[pid] {
		return false
	}
	_, err = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	return err == nil
}

// endedChild returns the id of a child that has ended, without reaping it; 0 if there is none.
func endedChild() (pid int, err error) {
	var info unix.Siginfo
	for {
		err = unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != syscall.EINTR {
			break
		}
	}
	// Three integers come first, then a union aligned to pointers, which begins with the process id.
	const offset = 8 + unsafe.Sizeof(uintptr(0))
	raw := (*[unsafe.Sizeof(info)]byte)(unsafe.Pointer(&info))
	return int(binary.NativeEndian.Uint32(raw[offset:])), err
}
