package kubernetes

import (
	"context"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

var bin = flag.String("bin", "", "the directory with redstalkd and redstalk: TestRollingUpdate runs them as the chart says")

// lag is how long nodes may take to hear that the pods of a service have changed.
const lag = time.Second

// deployment does with processes what Kubernetes does with the pods of the chart's Deployment: a new one starts, its readiness probe is
// asked, the service takes it in and an old one out, whose preStop runs, which gets SIGTERM, and is killed after its time.
type deployment struct {
	t       *testing.T
	spec    apps.DeploymentSpec
	env     []string
	pods    []*pod // which are not told to end
	service service
	ending  sync.WaitGroup
}

// pod is a process of redstalkd.
type pod struct {
	queue, web string // its addresses
	env        []string
	cmd        *exec.Cmd
	ended      chan struct{}
}

// TestRollingUpdate: while each instance is replaced as the chart does it, clients under load that have one address of the service or
// two see no error, and no job is lost.
func TestRollingUpdate(t *testing.T) {
	if *bin == "" {
		t.Skip("without -bin: make test-kubernetes-update")
	}
	d := deploy(t)
	one := d.service.listen(t)
	two := one + "," + d.service.listen(t)
	loads := []load{goLoad(t, two), pythonLoad(t, "Python", two), pythonLoad(t, "Python with one address", one)}
	time.Sleep(3 * time.Second) // of load
	began := time.Now()
	d.roll()
	t.Logf("%d instances were replaced in %.1f s", len(d.pods), time.Since(began).Seconds())
	time.Sleep(3 * time.Second)
	for _, l := range loads {
		got := l.ended()
		t.Logf("%s: %d puts, %d lost, %d handled twice, the longest put %.2f s, %d errors", l.name, got.Puts, got.Lost, got.Twice, got.Longest, len(got.Errors))
		if got.Puts < 500 || got.Lost > 0 || len(got.Errors) > 0 {
			t.Errorf("%s: %q", l.name, got.Errors[:min(len(got.Errors), 5)])
		}
	}
}

// deploy starts a Redis, and the pods of the chart on it.
func deploy(t *testing.T) *deployment {
	t.Helper()
	dir, redis := t.TempDir(), freeAddr(t)
	start(t, dir, "redis-server", "--port", redis[strings.LastIndex(redis, ":")+1:], "--bind", "127.0.0.1", "--dir", dir, "--save", "")
	d := &deployment{t: t}
	for _, object := range render(t, "redstalk", "redis: {url: 'redis://"+redis+"/0'}\nreplicas: 2") {
		switch o := typed(t, object).(type) {
		case *apps.Deployment:
			d.spec = o.Spec
		case *core.Secret:
			for name, value := range o.StringData {
				d.env = append(d.env, name+"="+value)
			}
		}
	}
	for _, e := range d.container().Env {
		if e.Name != "REDSTALK_LISTEN" && e.Name != "REDSTALK_HTTP" {
			d.env = append(d.env, e.Name+"="+e.Value)
		}
	}
	for range *d.spec.Replicas {
		d.add()
	}
	t.Cleanup(func() {
		for _, p := range d.pods {
			p.cmd.Process.Kill()
			<-p.ended
		}
	})
	return d
}

func (d *deployment) container() core.Container { return d.spec.Template.Spec.Containers[0] }

// roll replaces all pods: with a maxSurge of 1 and a maxUnavailable of 0 each old one is told to end when a new one is available. It returns when all have ended.
func (d *deployment) roll() {
	d.t.Helper()
	if r := d.spec.Strategy.RollingUpdate; r.MaxSurge.IntValue() != 1 || r.MaxUnavailable.IntValue() != 0 {
		d.t.Fatalf("the strategy is %+v", r)
	}
	for _, old := range slices.Clone(d.pods) {
		d.add()
		time.Sleep(time.Duration(d.spec.MinReadySeconds) * time.Second)
		d.pods = slices.DeleteFunc(d.pods, func(p *pod) bool { return p == old })
		d.ending.Go(func() { d.end(old) })
	}
	d.ending.Wait()
}

// add starts a pod, and returns when it is ready; the service has it a lag later.
func (d *deployment) add() {
	d.t.Helper()
	p := &pod{queue: freeAddr(d.t), web: freeAddr(d.t), ended: make(chan struct{})}
	host, port, _ := net.SplitHostPort(p.queue)
	p.env = append([]string{"REDSTALK_LISTEN=" + host, "REDSTALK_PORT=" + port, "REDSTALK_HTTP=" + p.web, "REDSTALK_SERVER=" + p.queue}, d.env...)
	p.cmd = exec.Command(filepath.Join(*bin, "redstalkd"), d.container().Args...)
	p.cmd.Env, p.cmd.Stderr = p.env, os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		d.t.Fatalf("starting an instance: %v", err)
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	probe := d.container().ReadinessProbe
	for attempt := 0; !p.ready(d.t.Context(), probe); attempt++ {
		if attempt == 12 {
			d.t.Fatal("the instance is never ready")
		}
		time.Sleep(time.Duration(probe.PeriodSeconds) * time.Second)
	}
	d.pods = append(d.pods, p)
	time.AfterFunc(lag, func() { d.service.add(p.queue) })
}

// ready asks a readiness probe.
func (p *pod) ready(ctx context.Context, probe *core.Probe) bool {
	ctx, stop := context.WithTimeout(ctx, time.Duration(probe.TimeoutSeconds)*time.Second)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.web+probe.HTTPGet.Path, nil)
	if err != nil {
		return false
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer reply.Body.Close()
	return reply.StatusCode == http.StatusOK
}

// end ends a pod as the kubelet does. Meanwhile nodes hear, a lag later, that the service has it no more.
func (d *deployment) end(p *pod) {
	began, last := time.Now(), time.Duration(*d.spec.Template.Spec.TerminationGracePeriodSeconds)*time.Second
	time.AfterFunc(lag, func() { d.service.remove(p.queue) })
	ctx, stop := context.WithTimeout(context.Background(), last)
	defer stop()
	command := d.container().Lifecycle.PreStop.Exec.Command
	stopping := exec.CommandContext(ctx, filepath.Join(*bin, filepath.Base(command[0])), command[1:]...)
	stopping.Env = p.env
	if out, err := stopping.CombinedOutput(); err != nil {
		d.t.Errorf("preStop: %v: %s", err, out)
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		d.t.Logf("an instance has ended after %.1f s", time.Since(began).Seconds())
	case <-ctx.Done():
		d.t.Errorf("an instance was killed after %v", last)
		p.cmd.Process.Kill()
		<-p.ended
	}
}

// service connects clients to one of its pods, as a virtual address of Kubernetes does: a connection stays with its pod.
type service struct {
	mu        sync.Mutex
	endpoints []string
}

func (s *service) add(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = append(s.endpoints, addr)
}

func (s *service) remove(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = slices.DeleteFunc(s.endpoints, func(other string) bool { return other == addr })
}

// pick returns the address of any pod; it is empty while there is none.
func (s *service) pick() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.endpoints) == 0 {
		return ""
	}
	return s.endpoints[rand.IntN(len(s.endpoints))]
}

// listen opens an address of the service until the test ends.
func (s *service) listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go s.connect(from)
		}
	}()
	return l.Addr().String()
}

// connect passes on what a client and its pod say until one of them closes.
func (s *service) connect(from net.Conn) {
	defer from.Close()
	to, err := net.DialTimeout("tcp", s.pick(), time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			io.Copy(way[1], way[0])
			way[1].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}
