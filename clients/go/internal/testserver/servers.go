package testserver

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/clients/go/redstalktest"
)

// A Server is what a test can do to a server.
type Server interface {
	Freeze() error
	Thaw() error
	Kill()
	Stop()
}

// A Cluster is one or more servers with the same jobs.
type Cluster struct {
	Name    string
	Addrs   []string
	Servers []Server

	// Restart starts server i again after it was killed, at the same address, with its jobs if the engine keeps
	// them. It is nil where jobs do not survive.
	Restart func(t testing.TB, i int)
}

// Addr is the list of addresses for client.New.
func (c *Cluster) Addr() string { return strings.Join(c.Addrs, ",") }

// Leases reports whether the servers have leases, and all else beyond beanstalkd.
func (c *Cluster) Leases() bool { return c.Name != "beanstalkd" }

// Engines has a function for each kind of server, which starts it for a test.
var Engines = map[string]func(testing.TB) *Cluster{
	"memory":     Memory,
	"embedded":   Embedded,
	"redis":      Redis,
	"beanstalkd": Beanstalkd,
}

// Memory starts a redstalkd that has its jobs in memory.
func Memory(t testing.TB) *Cluster {
	s := redstalktest.Start(t)
	return &Cluster{Name: "memory", Addrs: []string{s.Addr}, Servers: []Server{s}}
}

// Embedded starts a redstalkd that has its jobs in a directory.
func Embedded(t testing.TB) *Cluster { return cluster(t, "embedded", "embedded:"+t.TempDir(), 1) }

// Redis starts two instances of redstalkd on a Redis.
func Redis(t testing.TB) *Cluster {
	return cluster(t, "redis", "redis://"+NewRedis(t).Addr+"/0", 2)
}

func cluster(t testing.TB, name, store string, instances int) *Cluster {
	c := &Cluster{Name: name}
	for range instances {
		s := redstalktest.Start(t, "--store", store)
		c.Addrs, c.Servers = append(c.Addrs, s.Addr), append(c.Servers, s)
	}
	c.Restart = func(t testing.TB, i int) {
		_, port, _ := net.SplitHostPort(c.Addrs[i])
		c.Servers[i] = redstalktest.Start(t, "--store", store, "-p", port)
	}
	return c
}

// Beanstalkd starts the real beanstalkd. The test is skipped if it is not installed.
func Beanstalkd(t testing.TB) *Cluster {
	addr := FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	p := run(t, addr, "beanstalkd", "-l", host, "-p", port)
	t.Cleanup(p.Stop)
	return &Cluster{Name: "beanstalkd", Addrs: []string{addr}, Servers: []Server{p}}
}

// A RedisServer is a Redis that can be killed and started again, with the data of its last Save; else empty.
type RedisServer struct {
	Addr string
	dir  string
	*process
}

// NewRedis starts a Redis. The test is skipped if it is not installed.
func NewRedis(t testing.TB) *RedisServer {
	r := &RedisServer{dir: t.TempDir()}
	for {
		r.Addr = FreeAddr(t)
		if r.Start(t); r.answers() {
			break
		}
		r.Stop() // another process has taken the port meanwhile
	}
	t.Cleanup(func() { r.Stop() }) // once, so that servers that need it stop before it
	return r
}

// Start starts it again after it was killed.
func (r *RedisServer) Start(t testing.TB) {
	t.Helper()
	host, port, _ := net.SplitHostPort(r.Addr)
	r.process = run(t, r.Addr, "redis-server", "--bind", host, "--port", port, "--save", "", "--dir", r.dir)
}

// answers reports whether a Redis listens at the address.
func (r *RedisServer) answers() bool {
	c, err := net.Dial("tcp", r.Addr)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(c, "PING\r\n")
	reply, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && reply == "+PONG\r\n"
}

// Save writes a snapshot.
func (r *RedisServer) Save(t testing.TB) {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "SAVE\r\n")
	if reply, err := bufio.NewReader(c).ReadString('\n'); err != nil || reply != "+OK\r\n" {
		t.Fatalf("SAVE: %q, %v", reply, err)
	}
}

// FreeAddr returns an address of the loopback interface at which nobody listens.
func FreeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A process is a server that is not redstalkd.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// run starts a program that listens at addr. The caller stops it.
func run(t testing.TB, addr, program string, args ...string) *process {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skip(err)
	}
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	for range 1000 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return p
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.Stop()
	t.Fatalf("%s does not listen at %s", program, addr)
	return nil
}

func (p *process) Freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) Thaw() error   { return p.cmd.Process.Signal(syscall.SIGCONT) }
func (p *process) Stop()         { p.Kill() }

func (p *process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}
