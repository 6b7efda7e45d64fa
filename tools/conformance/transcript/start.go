package transcript

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"redstalk/tools/conformance/child"
)

// ErrNoBeanstalkd reports that there is no beanstalkd binary.
var ErrNoBeanstalkd = errors.New("no beanstalkd binary on the path")

// A Server is a running server process. Stop ends it.
type Server struct {
	kind          string
	process       *child.Process
	network, addr string
}

// startLimit is how long a server may take until it listens.
const startLimit = 20 * time.Second

// StartBeanstalkd runs the real beanstalkd on a free loopback port, with dir
// as its working directory, and returns when it listens. It returns
// [ErrNoBeanstalkd] if the binary is missing.
func StartBeanstalkd(dir string, flags ...string) (*Server, error) {
	bin, err := findBeanstalkd()
	if err != nil {
		return nil, err
	}
	version, err := exec.Command(bin, "-v").Output()
	if err != nil {
		return nil, fmt.Errorf("%s -v: %w", bin, err)
	}
	s := &Server{network: "tcp", kind: strings.Join(strings.Fields(string(version)), "-")}
	err = s.start(bin, dir, append([]string{"-V", "-l", "127.0.0.1", "-p", "0"}, flags...), func() (err error) {
		s.addr, err = s.process.Stdout.Await(0, `(?m)^bind \S+ (\S+)$`)
		return err
	})
	return s, err
}

func findBeanstalkd() (string, error) {
	for _, name := range []string{"beanstalkd", "/usr/bin/beanstalkd", "/usr/sbin/beanstalkd"} {
		if bin, err := exec.LookPath(name); err == nil {
			return bin, nil
		}
	}
	return "", ErrNoBeanstalkd
}

// Start runs another server with beanstalkd's -l flag, on a unix socket
// in dir, and returns when it listens. kind is the Kind of its Target.
func Start(kind, binary, dir string, flags ...string) (*Server, error) {
	s := &Server{kind: kind, network: "unix", addr: filepath.Join(dir, "sock")}
	if strings.ContainsRune(binary, filepath.Separator) {
		absolute, err := filepath.Abs(binary) // the process works in dir
		if err != nil {
			return nil, err
		}
		binary = absolute
	}
	err := s.start(binary, dir, append([]string{"-l", "unix:" + s.addr}, flags...), func() error {
		_, err := os.Stat(s.addr)
		return err
	})
	return s, err
}

// start returns when listens returns nil. That makes no connection, since transcripts count them.
func (s *Server) start(binary, dir string, args []string, listens func() error) (err error) {
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	if s.process, err = child.Start(cmd); err != nil {
		return err
	}
	if err = s.process.AwaitWithin(startLimit, listens); err != nil {
		s.Stop()
	}
	return err
}

// Target is what Play needs to play on this server.
func (s *Server) Target() Target {
	return Target{Kind: s.kind, Dial: s.dial, Signal: s.process.Cmd.Process.Signal}
}

// dial connects; it waits for a server that has bound but does not listen yet.
func (s *Server) dial() (net.Conn, error) {
	deadline := time.Now().Add(startLimit)
	for {
		conn, err := net.Dial(s.network, s.addr)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(deadline) {
			return conn, err
		}
		time.Sleep(time.Millisecond)
	}
}

// Log is what the server wrote on its standard error.
func (s *Server) Log() string { return s.process.Stderr.String() }

// Stop kills the process, which is how beanstalkd is stopped, and waits for
// its end.
func (s *Server) Stop() { s.process.Kill() }
