package redstalktest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"redstalk/clients/go/client"
)

// Run starts an empty server for the test and returns a client of it. Both end with the test.
func Run(t testing.TB, opts ...client.Option) *client.Client {
	t.Helper()
	c := client.New(Start(t).Addr, opts...)
	t.Cleanup(func() { c.Close() })
	return c
}

// A Server is a running redstalkd.
type Server struct {
	Addr string // HOST:PORT
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Start starts a server on a free port of the loopback interface, with further flags of redstalkd. With
// --store the jobs are elsewhere than in memory. The server ends with the test.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	path, err := Program()
	if err != nil {
		t.Fatalf("redstalktest: %v", err)
	}
	s, err := start(path, append([]string{"-V", "-p", "0", "--store", "memory:"}, flags...))
	if err != nil {
		t.Fatalf("redstalktest: %v", err)
	}
	t.Cleanup(s.Stop)
	return s
}

var serving = regexp.MustCompile(`msg=serving addr=(\S+)`)

func start(path string, args []string) (*Server, error) {
	s := &Server{cmd: exec.Command(path, args...), done: make(chan struct{})}
	s.cmd.SysProcAttr = dieWithParent()
	log, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	lines, text := bufio.NewScanner(log), ""
	for s.Addr == "" && lines.Scan() {
		text += lines.Text() + "\n"
		if m := serving.FindStringSubmatch(lines.Text()); m != nil {
			s.Addr = m[1]
		}
	}
	go func() {
		io.Copy(io.Discard, log)
		s.cmd.Wait()
		close(s.done)
	}()
	if s.Addr == "" {
		s.Kill()
		return nil, fmt.Errorf("%s %q does not serve:\n%s", path, args, text)
	}
	return s, nil
}

// Kill ends the process at once, as a crash would.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	<-s.done
}

// Stop shuts the server down, and kills it if that takes more than 10 seconds.
func (s *Server) Stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.cmd.Process.Signal(syscall.SIGCONT)
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.Kill()
	}
}

// Freeze stops the process, as a machine that hangs would, until Thaw.
func (s *Server) Freeze() error {
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(s.cmd.Process.Pid)
}

// Thaw lets the process go on.
func (s *Server) Thaw() error { return s.cmd.Process.Signal(syscall.SIGCONT) }
