package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// firstPassed is the descriptor of the first socket that systemd passes.
const firstPassed = 3

// inherit returns the listening socket that systemd has passed to this
// process, or nil if there is none: see sd_listen_fds(3).
func (p *program) inherit() (net.Listener, error) {
	count, err := p.passed()
	if count == 0 || err != nil {
		return nil, err
	}
	l, err := listenerOf(firstPassed)
	if err != nil {
		return nil, err
	}
	if count > 1 {
		p.log.Warn("several sockets were passed; only the first is used", "passed", count)
	}
	for _, name := range []string{"listen", "port"} {
		if p.given[name] {
			p.log.Warn("a socket was passed by systemd; ignoring the option", "option", "--"+name, "addr", l.Addr())
		}
	}
	return l, nil
}

// passed is the number of sockets that were passed to this process.
func (p *program) passed() (int, error) {
	pid, _ := p.env("LISTEN_PID")
	if n, err := strconv.Atoi(pid); err != nil || n != os.Getpid() {
		return 0, nil
	}
	fds, _ := p.env("LISTEN_FDS")
	count, err := strconv.Atoi(fds)
	if err != nil || count < 0 {
		return 0, fmt.Errorf("LISTEN_FDS is %q, not a number", fds)
	}
	return count, nil
}

// listenerOf makes a listener of a descriptor, which must be a listening stream socket. It closes fd.
func listenerOf(fd int) (net.Listener, error) {
	kind, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is not a socket: %w", fd, err)
	}
	listening, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
	if err != nil {
		return nil, fmt.Errorf("asking whether descriptor %d listens: %w", fd, err)
	}
	if kind != syscall.SOCK_STREAM || listening == 0 {
		return nil, fmt.Errorf("descriptor %d is not a listening stream socket", fd)
	}
	file := os.NewFile(uintptr(fd), "passed socket")
	defer file.Close()
	l, err := net.FileListener(file) // a duplicate, closed on exec
	if err != nil {
		return nil, err
	}
	switch l.(type) {
	case *net.TCPListener, *net.UnixListener:
		return l, nil
	}
	l.Close()
	return nil, errors.New("it is neither a TCP nor a unix socket")
}

// notify sends the program's state to systemd, if systemd has asked for it: see sd_notify(3). An
// error does not stop the server, so it is only logged.
func (p *program) notify(state string) {
	path, asked := p.env("NOTIFY_SOCKET")
	if !asked || path == "" {
		return
	}
	if name, abstract := strings.CutPrefix(path, "@"); abstract {
		path = "\x00" + name
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		p.log.Warn("notifying systemd failed", "state", state, "err", err.Error())
	}
}
