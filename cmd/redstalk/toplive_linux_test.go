package main

import (
	"bytes"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns a pseudoterminal: the side of the user, and that of the program.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this test needs a pseudoterminal: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// TestTopFrozenServer: top can be ended while the server does not answer.
func TestTopFrozenServer(t *testing.T) {
	t.Parallel()
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	for _, key := range []string{"q", "\x03", "jjjQ"} {
		user, program := openTerminal(t)
		ended := make(chan int, 1)
		go func() {
			args := []string{"redstalk", "--server", frozen.Addr().String(), "--timeout", "10m", "top"}
			ended <- run(t.Context(), stdio{in: program, out: program, err: &bytes.Buffer{}}, args)
		}()
		conn, err := frozen.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 100)); err != nil { // it has asked, so it reads keys
			t.Fatal(err)
		}
		if _, err := user.WriteString(key); err != nil {
			t.Fatal(err)
		}
		select {
		case code := <-ended:
			if code != 0 {
				t.Errorf("%q: exit code %d", key, code)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%q does not end it", key)
		}
	}
}
