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
		s := redstalktest.Start(t, "--store", store, "-p", portOf(FreeAddr(t)))
		c.Addrs, c.Servers = append(c.Addrs, s.Addr), append(c.Servers, s)
	}
	c.Restart = func(t testing.TB, i int) {
		c.Servers[i] = redstalktest.Start(t, "--store", store, "-p", portOf(c.Addrs[i]))
	}
	return c
}

// Beanstalkd starts the real beanstalkd. The test is skipped if it is not installed.
func Beanstalkd(t testing.TB) *Cluster {
	addr := FreeAddr(t)
	p := run(t, addr, "beanstalkd", "-l", "127.0.0.1", "-p", portOf(addr))
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
	r := &RedisServer{Addr: FreeAddr(t), dir: t.TempDir()}
	r.Start(t)
	t.Cleanup(func() { r.Stop() }) // once, so that servers that need it stop before it
	return r
}

// Start starts it again after it was killed.
func (r *RedisServer) Start(t testing.TB) {
	t.Helper()
	r.process = run(t, r.Addr, "redis-server", "--bind", "127.0.0.1", "--port", portOf(r.Addr), "--save", "", "--dir", r.dir)
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
		select {
		case <-p.done:
			t.Fatalf("%s has ended: %v", program, p.cmd.ProcessState)
		case <-time.After(10 * time.Millisecond):
		}
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
