package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"redstalk/protocol/client"
)

// patience is the timeout of every step of an attack.
const patience = 5 * time.Minute

// An engine is the store of a cluster's servers.
type engine string

const (
	memory   engine = "memory"
	embedded engine = "embedded"
	redis    engine = "redis"

	// distant is Redis behind a link of 100 Mbit/s.
	distant engine = "redis over 100 Mbit/s"
)

var engines = []engine{memory, embedded, redis}

// A cluster is the servers of one attack: one redstalkd, or several on one Redis.
type cluster struct {
	engine    engine
	dir       string
	redis     *redisServer // nil without Redis
	link      *link        // nil if the engine is not distant
	instances []*instance
}

// An instance is a running redstalkd.
type instance struct {
	addr string
	web  string // the address of its HTTP listener; "" without
	cmd  *exec.Cmd
}

// withHTTP, as a flag of an instance, gives it an HTTP API on a free port.
const withHTTP = "--http"

// newCluster starts n instances of the program with an engine; only Redis allows more than one.
func newCluster(bin string, e engine, n int, flags ...string) (*cluster, error) {
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	s := &cluster{engine: e, dir: dir}
	if e == redis || e == distant {
		if s.redis, err = startRedis(dir); err == nil && e == distant {
			s.link, err = startLink(s.redis.port)
		}
		if err != nil {
			s.end()
			return nil, err
		}
	}
	for range n {
		if err := s.startInstance(bin, flags); err != nil {
			s.end()
			return nil, err
		}
	}
	return s, nil
}

// storeURL is the value of --store.
func (s *cluster) storeURL() string {
	switch s.engine {
	case embedded:
		return "embedded:" + filepath.Join(s.dir, "jobs")
	case redis:
		return fmt.Sprintf("redis://127.0.0.1:%d/0", s.redis.port)
	case distant:
		return fmt.Sprintf("redis://127.0.0.1:%d/0", s.link.port())
	default:
		return "memory:"
	}
}

func (s *cluster) startInstance(bin string, flags []string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	args, web := []string{"-l", "127.0.0.1", "-p", strconv.Itoa(port), "--store", s.storeURL()}, ""
	for _, flag := range flags {
		if args = append(args, flag); flag == withHTTP {
			at, err := freePort()
			if err != nil {
				return err
			}
			web = fmt.Sprint("127.0.0.1:", at)
			args = append(args, web)
		}
	}
	cmd := exec.Command(bin, args...)
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of a server: %w", err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", bin, err)
	}
	i := &instance{addr: fmt.Sprint("127.0.0.1:", port), web: web, cmd: cmd}
	s.instances = append(s.instances, i)
	return i.await()
}

// await waits until the instance answers a command, which needs an open store.
func (i *instance) await() error {
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c, err := client.Dial(i.addr, time.Second)
		if err == nil {
			err = c.Ask([]byte("list-tubes\r\n"), 1, func(*client.Reply) error { return nil })
			c.Close()
		}
		if err == nil {
			return nil
		}
		if time.Since(begun) > 10*time.Second {
			return fmt.Errorf("waiting for a server: %w", err)
		}
	}
}

// kill kills an instance, as a power cut would, and waits for its end.
func (i *instance) kill() {
	i.cmd.Process.Kill()
	i.cmd.Wait()
}

// end stops all servers and removes their files.
func (s *cluster) end() {
	for _, i := range s.instances {
		i.cmd.Process.Signal(syscall.SIGTERM)
		done := time.AfterFunc(20*time.Second, func() { i.cmd.Process.Kill() })
		i.cmd.Wait()
		done.Stop()
	}
	if s.link != nil {
		s.link.Close()
	}
	if s.redis != nil {
		s.redis.end()
	}
	os.RemoveAll(s.dir)
}

// resident is the resident memory of the instance, in bytes.
func (i *instance) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", i.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of a server: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("a server has ended")
}

// used is the processor time of a process.
func used(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the time of a process: %w", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const tick = 10 * time.Millisecond // USER_HZ is 100 on Linux
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the time of a process: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
