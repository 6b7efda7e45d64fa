package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"redstalk/tools/redistest"
)

// TestFsckOnTerminal: progress goes to a terminal only, and nothing of it is left in
// what is said.
func TestFsckOnTerminal(t *testing.T) {
	redis := redistest.Start(t)
	p, addr := serve(t, "-p0", "--store", redis.URL())
	dial(t, addr).ask("put 0 0 60 1\r\nx\r\n", "INSERTED 1")
	p.signal(t, syscall.SIGTERM)
	p.code(t)
	terminal, screen := openTerminal(t)
	cmd := command("fsck", "--store", redis.URL())
	var stdout strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, terminal
	if err := cmd.Run(); err != nil || stdout.String() != "1 jobs, 0 faults\n" {
		t.Errorf("%v, %q", err, stdout.String())
	}
	terminal.Close()
	if shown := screen(); !strings.HasPrefix(shown, "\r\033[Kprocessing ") || !strings.HasSuffix(shown, "\r\033[K") {
		t.Errorf("on the terminal: %q", shown)
	}
}

// openTerminal returns a terminal, and what returns all that was shown on it when
// everybody has closed it.
func openTerminal(t *testing.T) (terminal *os.File, screen func() string) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	t.Cleanup(func() { control.Close() })
	number, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	return terminal, func() string {
		shown, _ := io.ReadAll(control) // which ends with an error
		return string(shown)
	}
}
