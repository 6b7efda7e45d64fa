package attack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"redstalk/protocol/client"
	"redstalk/tools/conformance/child"
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
	*child.Process
	addr string
	web  string // the address of its HTTP listener; "" without
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
		return fmt.Sprintf("redis://127.0.0.1:%s/0", s.redis.port)
	case distant:
		return fmt.Sprintf("redis://127.0.0.1:%d/0", s.link.port())
	default:
		return "memory:"
	}
}

func (s *cluster) startInstance(bin string, flags []string) error {
	port := child.FreePort()
	args, web := []string{"-l", "127.0.0.1", "-p", port, "--store", s.storeURL()}, ""
	for _, flag := range flags {
		if args = append(args, flag); flag == withHTTP {
			web = "127.0.0.1:" + child.FreePort()
			args = append(args, web)
		}
	}
	p, err := child.Start(exec.Command(bin, args...))
	if err != nil {
		return err
	}
	i := &instance{p, "127.0.0.1:" + port, web}
	s.instances = append(s.instances, i)
	return i.await()
}

// await waits until the instance answers a command, which needs an open store.
func (i *instance) await() error {
	return i.AwaitWithin(10*time.Second, func() error {
		c, err := client.Dial(i.addr, time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Ask([]byte("list-tubes\r\n"), 1, func(*client.Reply) error { return nil })
	})
}

// end stops all servers and removes their files.
func (s *cluster) end() {
	for _, i := range s.instances {
		i.Stop(20 * time.Second)
	}
	if s.link != nil {
		s.link.Close()
	}
	if s.redis != nil {
		s.redis.Kill()
	}
	os.RemoveAll(s.dir)
}

// resident is the resident memory of the instance, in bytes.
func (i *instance) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", i.Pid()))
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
