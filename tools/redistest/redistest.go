// Package redistest starts real redis-servers for tests: alone, with replicas and
// sentinels, or as a cluster; each on a free loopback port, with a directory of
// its own, ended by its pid. It kills, stops and restarts them, moves the slots
// of a cluster, and breaks connections to them.
//
// A client that finds a server by asking sentinels or nodes of a cluster connects to the
// addresses that they announce. So servers that are started behind proxies (Behind…) announce
// the proxy's address: engines, sentinels, replicas and other nodes all use the proxy, and any
// of them can be cut off. Only the tests themselves connect directly.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/tools/conformance/child"
)

// startLimit is how long a server has to answer, or several to agree.
const startLimit = 3 * time.Minute

// Server is a running redis-server.
type Server struct {
	Addr string // host:port
	Dir  string

	// Front is before Addr, and Bus before the port for other nodes of a
	// cluster; nil unless it was started behind proxies. While the server is
	// dead they refuse connections, as it would.
	Front, Bus *Proxy

	args    []string
	lock    *Lock
	process *child.Process // nil before it is first started
}

// terms are the conditions on which servers are started.
type terms struct {
	lock   *Lock // nil: there is none
	behind bool  // proxies
}

// Start starts a redis-server that keeps nothing on disk unless the arguments, in the syntax of
// its configuration, say otherwise. It ends with the test.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return start(tb, terms{}, args...)
}

// StartWithProxy is Start behind a proxy.
func StartWithProxy(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return start(tb, terms{behind: true}, args...)
}

func start(tb testing.TB, on terms, args ...string) *Server {
	tb.Helper()
	s := newServer(tb, on)
	s.args = args
	s.serve(tb)
	return s
}

// serve starts a server that keeps on disk only what its arguments require.
func (s *Server) serve(tb testing.TB) {
	tb.Helper()
	all := append(s.lock.listen(s.port()), "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--daemonize", "no")
	s.args = append(append(all, s.lock.admit()...), s.args...)
	s.begin(tb)
}

// newServer prepares one that has not begun.
func newServer(tb testing.TB, on terms) *Server {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		tb.Fatalf("these tests need redis-server, which `make deps` installs: %v", err)
	}
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", child.FreePort()), Dir: tb.TempDir(), lock: on.lock}
	if on.behind {
		s.Front = NewProxyTo(tb, s.Addr)
	}
	return s
}

func (s *Server) port() string { return portOf(s.Addr) }

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// Announced is the address that the server announces, host:port.
func (s *Server) Announced() string {
	if s.Front != nil {
		return s.Front.Addr
	}
	return s.Addr
}

// Pid is that of the process, which is another one after Restart.
func (s *Server) Pid() int { return s.process.Pid() }

// begin starts the server until the test ends.
func (s *Server) begin(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(s.Kill)
	if err := s.Restart(); err != nil {
		tb.Fatal(err)
	}
}

// startByFile starts a redis-server, or a sentinel, with its own configuration file, which it
// rewrites at changes. So after a restart it is what it was last.
func startByFile(tb testing.TB, on terms, text string, args ...string) *Server {
	tb.Helper()
	s := newServer(tb, on)
	if s.Front != nil {
		text += "replica-announce-port " + portOf(s.Front.Addr) + "\n"
	}
	file := filepath.Join(s.Dir, "redis.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.args = append([]string{file}, args...)
	s.args = append(append(s.args, on.lock.listen(s.port())...), "--bind", "127.0.0.1", "--dir", s.Dir, "--daemonize", "no")
	s.begin(tb)
	return s
}

// Restart starts the server again after Kill, on the same port and directory.
func (s *Server) Restart() error {
	if err := s.mendLog(); err != nil {
		return err
	}
	var err error
	if s.process, err = child.Start(exec.Command("redis-server", s.args...)); err != nil {
		return err
	}
	for _, before := range s.Proxies() {
		if err := before.open(); err != nil {
			return err
		}
	}
	return s.awaitAnswer()
}

// SetLater adds arguments for the next Restart.
func (s *Server) SetLater(args ...string) { s.args = append(s.args, args...) }

// mendLog removes half a transaction from the end of the AOF, as docs/redis.md tells operators
// to. Redis truncates only the incomplete command, and keeps the MULTI before it: at the next
// start it takes what was written later for the rest of that transaction, and half a batch is
// carried out (fixed by github.com/valkey-io/valkey/pull/4342, not in Redis 7.0). Valkey does not need it, and the
// valkey-check-aof of 9.1 takes a sound base file for a broken one.
func (s *Server) mendLog() error {
	if version, err := exec.Command("redis-server", "--version").Output(); err != nil || strings.HasPrefix(string(version), "Valkey") {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.manifest"))
	for _, log := range logs {
		cmd := exec.Command("redis-check-aof", "--fix", log)
		cmd.Stdin = strings.NewReader("y\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("mending %s: %w\n%s", log, err, out)
		}
	}
	return err
}

// Proxies are those before the server, none if it was not started behind any.
func (s *Server) Proxies() []*Proxy {
	return slices.DeleteFunc([]*Proxy{s.Front, s.Bus}, func(p *Proxy) bool { return p == nil })
}

// URL is how an engine reaches the server.
func (s *Server) URL() string { return "redis://" + s.Announced() + "/0" }

// info returns a section of what the server says of itself; "" if it does not
// answer.
func (s *Server) info(ctx context.Context, section string) string {
	options := s.options()
	options.MaxRetries = -1
	c := goredis.NewClient(options)
	defer c.Close()
	text, _ := c.Info(ctx, section).Result()
	return text
}

// Client returns a client of the server, which ends with the test.
func (s *Server) Client(tb testing.TB) *goredis.Client {
	c := goredis.NewClient(s.options())
	tb.Cleanup(func() { c.Close() })
	return c
}

// options are those of a client that may do everything.
func (s *Server) options() *goredis.Options {
	return &goredis.Options{Addr: s.Addr, TLSConfig: s.lock.config()}
}

// Kill ends the server at once. It may be called twice.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	for _, before := range s.Proxies() {
		before.shut()
	}
}

// Stop suspends the server, like a paused machine.
func (s *Server) Stop() { s.process.Freeze() }

// Continue undoes Stop.
func (s *Server) Continue() { s.process.Cmd.Process.Signal(syscall.SIGCONT) }

func (s *Server) awaitAnswer() error {
	options := s.options()
	options.MaxRetries = -1
	c := goredis.NewClient(options)
	defer c.Close()
	return s.process.AwaitWithin(startLimit, func() error {
		err := c.Ping(context.Background()).Err()
		if err != nil && strings.HasPrefix(err.Error(), "NOAUTH") {
			return nil
		}
		return err
	})
}
