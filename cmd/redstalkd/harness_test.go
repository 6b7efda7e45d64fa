package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait in these tests; none is expected to come near.
const patience = time.Minute

// binary is the program, built once.
var binary string

// TestMain lets many tests run at the same time on few processors: most of
// their time they wait.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "16")
	os.Setenv("REDSTALK_STORE", "memory:") // unless a test says otherwise
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "redstalkd")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755) // for the tests of -u
	binary = filepath.Join(dir, "redstalkd")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// transcript collects what is written to it, and lets one wait for it.
type transcript struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed by the next write
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.text.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits for a match and returns its last group.
func (s *transcript) await(t *testing.T, pattern string) string {
	t.Helper()
	re, limit := regexp.MustCompile(pattern), time.After(patience)
	for {
		s.mu.Lock()
		text, changed := s.text.String(), s.changed
		s.mu.Unlock()
		if m := re.FindStringSubmatch(text); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("no %q in:\n%s", pattern, text)
		}
	}
}

// process is a run of the binary.
type process struct {
	cmd    *exec.Cmd
	stdout *transcript
	stderr *transcript
	ended  chan struct{}
}

// command is the binary with these arguments and an environment of its own, in
// which jobs are kept in memory.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "REDSTALK_STORE=memory:"}
	return cmd
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, stdout: newTranscript(), stderr: newTranscript(), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.stdout, p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// serve starts the binary with -V and these arguments, and waits until it
// serves.
func serve(t *testing.T, args ...string) (p *process, addr string) {
	t.Helper()
	p = start(t, command(append([]string{"-V"}, args...)...))
	return p, p.serving(t)
}

func (p *process) serving(t *testing.T) (addr string) {
	t.Helper()
	return p.stderr.await(t, `msg=serving addr=(\S+)`)
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// code waits for the end of the process.
func (p *process) code(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("the process goes on:\n%s", p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// run is one whole run of the binary that is expected to end by itself.
func run(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, cmd)
	code = p.code(t)
	return code, p.stdout.String(), p.stderr.String()
}

// inside runs Main in this process until the test ends.
type inside struct {
	signals chan os.Signal
	addr    chan net.Addr
	code    chan int
	stderr  *transcript
	stop    context.CancelFunc
}

func runInside(t *testing.T, m *Main, args ...string) *inside {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	p := &inside{
		signals: make(chan os.Signal, 2), addr: make(chan net.Addr, 1), code: make(chan int, 1),
		stderr: newTranscript(), stop: stop,
	}
	if m.LookupEnv == nil {
		env := map[string]string{"REDSTALK_STORE": "memory:"}
		m.LookupEnv = func(name string) (string, bool) {
			value, is := env[name]
			return value, is
		}
	}
	m.Signals, m.Ready = p.signals, func(a net.Addr) { p.addr <- a }
	go func() { p.code <- m.Run(ctx, args, newTranscript(), p.stderr) }()
	return p
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
