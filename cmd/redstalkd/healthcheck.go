package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// healthLimit is how long the server may take to answer a healthcheck.
const healthLimit = 5 * time.Second

// healthcheck is `redstalkd healthcheck OPTIONS`: it sends a command to the server that these options
// would start. If that answers, it exits with 0 and prints nothing. An answer that asks for
// authentication counts.
func (m *Main) healthcheck(ctx context.Context, args []string, env func(string) (string, bool), stdout, _ io.Writer) error {
	s, err := configure(args, env, stdout)
	if err != nil || s == nil {
		return err
	}
	network, at := "tcp", net.JoinHostPort(dialHost(s.addr), strconv.Itoa(s.port))
	if path, ok := strings.CutPrefix(s.addr, unixPrefix); ok {
		path, _, err := parseUnix(path)
		if err != nil {
			return failure(exitUsage, "%w", err)
		}
		network, at = "unix", fileName(path)
	}
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, at)
	if err != nil {
		return failure(exitFailure, "the server does not answer: %w", err)
	}
	defer conn.Close()
	if deadline, has := ctx.Deadline(); has {
		conn.SetDeadline(deadline)
	}
	if _, err = io.WriteString(conn, "list-tube-used\r\n"); err == nil {
		_, err = bufio.NewReader(conn).ReadString('\n')
	}
	if err != nil {
		return failure(exitFailure, "the server at %s does not answer: %w", at, err)
	}
	return nil
}

// dialHost returns the host at which to reach a server that listens on addr: the loopback address if it
// listens on all addresses.
func dialHost(addr string) string {
	if ip := net.ParseIP(addr); ip != nil && ip.IsUnspecified() {
		if ip.To4() != nil {
			return "127.0.0.1"
		}
		return "::1"
	}
	return addr
}
