package main

import (
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// restartable is a server that is stopped and started again, always on the
// same port and with the same data.
type restartable struct {
	command  func(port string) *exec.Cmd
	port     string
	running  *process
	restarts int
}

// start returns when the server answers.
func (s *restartable) start(t *testing.T) {
	t.Helper()
	s.running = start(t, s.command(s.port))
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("tcp", s.addr()); err == nil {
			conn.Close()
			c := dial(t, s.addr())
			c.ask("list-tube-used\r\n", "USING default")
			c.conn.Close()
			return
		}
	}
	t.Fatalf("nobody listens on %s:\n%s", s.addr(), s.running.stderr)
}

// restart stops the server, politely the first time, by force the second one, and so on.
func (s *restartable) restart(t *testing.T) {
	t.Helper()
	s.restarts++
	sig := syscall.SIGTERM
	if s.restarts%2 == 0 {
		sig = syscall.SIGKILL
	}
	s.running.signal(t, sig)
	s.running.code(t)
	s.start(t)
}

func (s *restartable) addr() string { return net.JoinHostPort("127.0.0.1", s.port) }
