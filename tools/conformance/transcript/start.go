package transcript

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrNoBeanstalkd reports that there is no beanstalkd binary.
var ErrNoBeanstalkd = errors.New("no beanstalkd binary on the path")

// A Server is a running server process. Stop ends it.
type Server struct {
	kind    string
	cmd     *exec.Cmd
	network string
	addr    string
}

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
	s.cmd = exec.Command(bin, append([]string{"-V", "-l", "127.0.0.1", "-p", "0"}, flags...)...)
	s.cmd.Dir = dir
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if s.addr, err = boundAddress(out); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func findBeanstalkd() (string, error) {
	for _, name := range []string{"beanstalkd", "/usr/bin/beanstalkd", "/usr/sbin/beanstalkd"} {
		if bin, err := exec.LookPath(name); err == nil {
			return bin, nil
		}
	}
	return "", ErrNoBeanstalkd
}

// boundAddress reads the port from the log of beanstalkd -V -p 0, and continues
// to read so that the log never blocks the server. The reader ends with the
// process.
func boundAddress(out io.Reader) (string, error) {
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("beanstalkd ended before it listened: %w", err)
		}
		if f := strings.Fields(line); len(f) == 3 && f[0] == "bind" {
			go func() { _, _ = io.Copy(io.Discard, r) }()
			return f[2], nil
		}
	}
}

// Start runs another server with beanstalkd's -l flag, on a unix socket
// in dir, and returns when it listens. kind is the Kind of its Target. The
// server's standard error is in dir/stderr.
func Start(kind, binary, dir string, flags ...string) (*Server, error) {
	s := &Server{kind: kind, network: "unix", addr: filepath.Join(dir, "sock")}
	if strings.ContainsRune(binary, filepath.Separator) {
		absolute, err := filepath.Abs(binary) // the process works in dir
		if err != nil {
			return nil, err
		}
		binary = absolute
	}
	s.cmd = exec.Command(binary, append([]string{"-l", "unix:" + s.addr}, flags...)...)
	log, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the server has its own descriptor
	s.cmd.Dir, s.cmd.Stderr = dir, log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range startLimit / startPause {
		if _, err := os.Stat(s.addr); err == nil {
			return s, nil
		}
		time.Sleep(startPause)
	}
	s.Stop()
	said, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("%s did not listen on %s within %v: %s", binary, s.addr, startLimit, said)
}

// Target is what Play needs to play on this server.
func (s *Server) Target() Target {
	return Target{Kind: s.kind, Dial: s.dial, Signal: s.cmd.Process.Signal}
}

const (
	startLimit = 20 * time.Second // how long a server may take until it listens
	startPause = 10 * time.Millisecond
)

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

// Stop kills the process, which is how beanstalkd is stopped, and waits for
// its end.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}
