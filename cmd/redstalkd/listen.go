package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"redstalk/storage/redact"
)

const (
	unixPrefix = "unix:"

	// maxUnixPath is what fits into a sockaddr_un, less the NUL.
	maxUnixPath = 107

	// probeLimit is how long a probe of a socket file may take.
	probeLimit = 2 * time.Second
)

// listen returns the socket of the beanstalk port: the one that systemd passed, or
// else a new one. Its errors have the exit code exitListen.
func (p *program) listen(ctx context.Context) (net.Listener, error) {
	l, err := p.inherit()
	if err != nil {
		return nil, failure(exitListen, "using the socket passed by systemd: %w", err)
	}
	switch path, isUnix := strings.CutPrefix(p.addr, unixPrefix); {
	case l != nil:
	case isUnix:
		l, err = p.listenUnix(ctx, path)
	default:
		l, err = p.listenTCP(ctx, p.addr, p.port)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, failure(exitListen, "cannot listen: %w: another server has the port, perhaps a beanstalkd; -p chooses another port", redact.Error(p.addr, err))
	case err != nil:
		return nil, failure(exitListen, "cannot listen: %w", redact.Error(p.addr, err))
	}
	return l, nil
}

// listenAt listens on HOST:PORT, :PORT or unix:PATH.
func (s *settings) listenAt(ctx context.Context, addr string) (net.Listener, error) {
	if path, isUnix := strings.CutPrefix(addr, unixPrefix); isUnix {
		return s.listenUnix(ctx, path)
	}
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := net.LookupPort("tcp", service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return s.listenOn(ctx, "tcp", "", port) // all addresses, IPv4 and IPv6
	}
	return s.listenTCP(ctx, host, port)
}

// listenTCP listens on the first address of the host that is available.
func (s *settings) listenTCP(ctx context.Context, host string, port int) (net.Listener, error) {
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("the host %q has no address", host)
	}
	var errs []error
	for _, ip := range ips {
		// With "tcp", 0.0.0.0 would include IPv6.
		network := "tcp"
		if ip.IP.To4() != nil {
			network = "tcp4"
		}
		l, err := s.listenOn(ctx, network, ip.String(), port)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// listenOn listens on an address, with retries, see retryWhileTaken.
func (s *settings) listenOn(ctx context.Context, network, host string, port int) (net.Listener, error) {
	return retryWhileTaken(ctx, s, func() (net.Listener, error) {
		var config net.ListenConfig
		return config.Listen(ctx, network, net.JoinHostPort(host, strconv.Itoa(port)))
	})
}

// listenUnix listens on a socket file. It replaces the file of a dead server. The path can
// be followed by the file's mode and owners, see unixOptions.
func (s *settings) listenUnix(ctx context.Context, path string) (net.Listener, error) {
	return retryWhileTaken(ctx, s, func() (net.Listener, error) { return listenFile(ctx, path) })
}

// listenFile is one attempt of listenUnix.
func listenFile(ctx context.Context, path string) (net.Listener, error) {
	path, options, err := parseUnix(path)
	if err != nil {
		return nil, err
	}
	if len(path) > maxUnixPath {
		return nil, fmt.Errorf("the path of a unix socket has at most %d bytes, this one %d: %s", maxUnixPath, len(path), path)
	}
	defer lockDirectory(path)()
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: options.close}
	listener, err := config.Listen(ctx, "unix", fileName(path))
	if err != nil {
		return nil, err
	}
	l := listener.(*net.UnixListener)
	l.SetUnlinkOnClose(false)
	info, err := os.Lstat(path)
	if err == nil {
		err = options.apply(path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return &socketFile{Listener: l, path: path, info: info}, nil
}

// fileName is path in the form for package net, where a leading @ would mean
// an abstract socket, without a file.
func fileName(path string) string {
	if strings.HasPrefix(path, "@") {
		return "./" + path
	}
	return path
}

// lockDirectory keeps other servers from looking at the socket files of a directory until unlock is
// called: one that is bound and does not listen yet looks like that of a dead server. If the
// directory cannot be locked, there is no lock.
func lockDirectory(path string) (unlock func()) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return func() {}
	}
	syscall.Flock(int(dir.Fd()), syscall.LOCK_EX)
	return func() { dir.Close() }
}

// removeStale removes the socket file of a dead server at path. It fails if a server
// answers there, or if the file is not a socket.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	dialer := net.Dialer{Timeout: probeLimit}
	conn, err := dialer.DialContext(ctx, "unix", fileName(path))
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("%w on %s", errAnswers, path)
	case errors.Is(err, os.ErrNotExist):
		return nil
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s is in use: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of a dead server: %w", err)
	}
	return nil
}

// socketFile is a listener that removes its file when it is closed, unless
// the file has been replaced.
type socketFile struct {
	net.Listener
	path string
	info os.FileInfo
	once sync.Once
}

func (s *socketFile) Close() error {
	s.once.Do(func() {
		if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.info) {
			os.Remove(s.path) // fails if -u dropped the right to: then the next start removes it
		}
	})
	return s.Listener.Close()
}
